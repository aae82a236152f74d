package load_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// What is wrong with one option is said without its name.
func TestValid(t *testing.T) {
	rule := func(a *load.Args) error {
		a.Bytes("size", "1MiB", 512, 1<<20)
		a.Duration("time", time.Second, time.Millisecond, time.Minute)
		if a.Text("words", "some") == "none" {
			return errors.New("no words")
		}
		return a.Err()
	}
	for _, test := range []struct{ key, value, want string }{
		{"size", "64KiB", ""},
		{"size", "big", `"big": want a size from 512 B to 1 MiB, such as 64MiB`},
		{"size", "", `"": want a size from 512 B to 1 MiB, such as 64MiB`},
		{"time", "1h", `"1h": want a duration from 1ms to 1m0s`},
		{"time", "a=b", `"a=b": want a duration from 1ms to 1m0s`},
		{"words", "none", "no words"},
		{"speed", "1", `there is no option "speed"`},
	} {
		got := ""
		if err := load.Valid(test.key, test.value, rule); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("Valid(%s, %q) = %q, want %q", test.key, test.value, got, test.want)
		}
	}
}
