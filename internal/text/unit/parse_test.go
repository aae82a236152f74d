package unit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/text/unit"
)

func TestParseBytes(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64
		err  string // part of the message
	}{
		{"512", 512, ""},
		{"0", 0, ""},
		{"512B", 512, ""},
		{"64MiB", 64 << 20, ""},
		{" 64 mib ", 64 << 20, ""},
		{"1.5GB", 1_500_000_000, ""},
		{"1.1GB", 1_100_000_000, ""},
		{"0.5KiB", 512, ""},
		{"9223372036854775807", math.MaxInt64, ""},
		{"8TiB", 8 << 40, ""},
		{"9223372036854775808", 0, "is too large"},
		{"99999999TiB", 0, "is too large"},
		{"1.0005kB", 0, "not a whole number of bytes"},
		{"64M", 0, `unknown unit "M"`},
		{"64 parsecs", 0, `unknown unit "parsecs"`},
		{"", 0, "not a positive number"},
		{"-1", 0, "not a positive number"},
		{"MiB", 0, "not a positive number"},
		{"NaN", 0, "not a positive number"},
		{"1e9", 0, "unknown unit"},
		{"1.2.3MB", 0, "not a number"},
		{".", 0, "not a number"},
		{strings.Repeat("9", 1000), 0, "too long"},
	} {
		got, err := unit.ParseBytes(tt.text)
		checkParsed(t, "ParseBytes", tt.text, got, err, tt.want, tt.err, "64MiB")
	}
}

func TestParsePercent(t *testing.T) {
	for _, tt := range []struct {
		text string
		want float64
		err  string
	}{
		{"3%", 0.03, ""},
		{"7%", 0.07, ""},
		{"2.5 %", 0.025, ""},
		{"0.03", 0.03, ""},
		{"0", 0, ""},
		{"100%", 1, ""},
		{"3", 0, "no percent sign"},
		{"1", 0, "no percent sign"},
		{"100.1%", 0, "too large"},
		{"-3%", 0, "not understood"},
		{"", 0, "not understood"},
		{"%", 0, "not understood"},
		{"NaN", 0, "not understood"},
		{"0x1p-2", 0, "not understood"},
		{"3%%", 0, "not understood"},
		{"1.2.3%", 0, "not a number"},
		{strings.Repeat("0", 1000), 0, "too long"},
	} {
		got, err := unit.ParsePercent(tt.text)
		checkParsed(t, "ParsePercent", tt.text, got, err, tt.want, tt.err, "3%")
	}
}

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
		err  string
	}{
		{"90s", 90 * time.Second, ""},
		{"1m30s", 90 * time.Second, ""},
		{"1m 30s", 90 * time.Second, ""},
		{"250ms", 250 * time.Millisecond, ""},
		{"1.5h", 90 * time.Minute, ""},
		{"2µs", 2 * time.Microsecond, ""},
		{"2d", 48 * time.Hour, ""},
		{"2d 4h", 52 * time.Hour, ""},
		{"0", 0, ""},
		{"0s", 0, ""},
		{"2", 0, "has no unit"},
		{"2.5", 0, "has no unit"},
		{"-2s", 0, "is negative"},
		{"−2s", 0, "is negative"},
		{"1d-2h", 0, "is negative"},
		{"", 0, "is empty"},
		{"  ", 0, "is empty"},
		{"soon", 0, "not understood"},
		{"2 days", 0, "not understood"},
		{"99999999d", 0, "not understood"},
		{"106751d 999h", 0, "too long"},
		{strings.Repeat("1s", 100), 0, "too long"},
	} {
		got, err := unit.ParseDuration(tt.text)
		checkParsed(t, "ParseDuration", tt.text, got, err, tt.want, tt.err, "1m30s")
	}
}

// checkParsed also asks that every error shows an example of what is allowed.
func checkParsed[T comparable](t *testing.T, what, text string, got T, err error, want T, wantErr, example string) {
	t.Helper()
	switch {
	case wantErr == "" && err != nil:
		t.Errorf("%s(%.40q): %v", what, text, err)
	case wantErr == "" && got != want:
		t.Errorf("%s(%.40q) = %v, want %v", what, text, got, want)
	case wantErr != "" && err == nil:
		t.Errorf("%s(%.40q) = %v, want an error with %q", what, text, got, wantErr)
	case wantErr != "" && !(strings.Contains(err.Error(), wantErr) && strings.Contains(err.Error(), example)):
		t.Errorf("%s(%.40q): %q, want it to say %q and %q", what, text, err, wantErr, example)
	}
}

func TestFormatDuration(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{850 * time.Millisecond, "850ms"},
		{1200 * time.Nanosecond, "1.20µs"},
		{999_600 * time.Microsecond, "1s"},
		{4230 * time.Millisecond, "4.2s"},
		{9960 * time.Millisecond, "10s"},
		{41 * time.Second, "41s"},
		{59_700 * time.Millisecond, "1m"},
		{101 * time.Second, "1m 41s"},
		{2 * time.Minute, "2m"},
		{2*time.Hour + 5*time.Minute + 9*time.Second, "2h 5m"},
		{59*time.Minute + 59_600*time.Millisecond, "1h"},
		{76 * time.Hour, "3d 4h"},
		{-101 * time.Second, "−1m 41s"},
		{math.MaxInt64, "106751d 23h"},
		{math.MinInt64, "−106751d 23h"},
	} {
		if got := unit.FormatDuration(tt.d); got != tt.want {
			t.Errorf("FormatDuration(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

// FuzzDuration checks that ParseDuration reads what FormatDuration writes, to
// the two units that are shown.
func FuzzDuration(f *testing.F) {
	for _, d := range []int64{0, 1, 999_499_999, 999_500_000, 59_500_000_000, math.MaxInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n).Abs()
		text := unit.FormatDuration(d)
		got, err := unit.ParseDuration(text)
		if err != nil {
			t.Fatalf("%d is written as %q: %v", d, text, err)
		}
		if diff := (got - d).Abs(); diff > d/60+time.Nanosecond {
			t.Fatalf("%d is written as %q and read as %d", d, text, got)
		}
	})
}

// FuzzParse checks what holds for every text: no panic, no value out of range.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"64MiB", "1.5GB", "3%", "0.03", "1m 30s", "2d", "-1", ".", "1e400", "0x1p-2", "\x00", "−"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := unit.ParseBytes(s); n < 0 || err != nil && n != 0 {
			t.Errorf("ParseBytes(%q) = %d, %v", s, n, err)
		}
		if p, err := unit.ParsePercent(s); !(p >= 0 && p <= 1) || err != nil && p != 0 {
			t.Errorf("ParsePercent(%q) = %v, %v", s, p, err)
		}
		if d, err := unit.ParseDuration(s); d < 0 || err != nil && d != 0 {
			t.Errorf("ParseDuration(%q) = %v, %v", s, d, err)
		}
	})
}
