package app

import (
	"testing"
	"time"
)

// Whatever is typed for a time is a time, which reads as itself, or refused.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{
		"7d", "2026-11-20", "2026-11-20 15:04", "2026-11-20T15:04:05+01:00", "106751d", "-1h", "0", "9999999d", "1d2",
	} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseTime(text, now)
		if err != nil {
			return
		}
		again, err := ParseTime(at.Format(time.RFC3339Nano), now)
		if err != nil || !again.Equal(at) {
			t.Errorf("%q is %v, and that is %v, %v", text, at, again, err)
		}
	})
}
