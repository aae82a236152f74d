package bench_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// A template writes down that it was removed.
type template struct {
	name    string
	removed *[]string
}

func (t template) Remove(context.Context) error {
	*t.removed = append(*t.removed, t.name)
	return nil
}

// What a run has in common is made once and removed with it, last made first; what could
// not be made is tried again by the next who asks.
func TestCommon(t *testing.T) {
	var c bench.Common
	var removed []string
	made := 0
	get := func(name string) template {
		got, err := bench.GetCommon(&c, name, func() (template, error) { made++; return template{name, &removed}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	broken := errors.New("broken")
	if _, err := bench.GetCommon(&c, "first", func() (template, error) {
		return template{},
			broken
	}); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of making it", err)
	}
	for _, name := range []string{"first", "second", "first"} {
		if got := get(name); got.name != name {
			t.Errorf("%q is %q", name, got.name)
		}
	}
	if made != 2 {
		t.Errorf("%d were made, want 2", made)
	}
	if _, err := bench.GetCommon(&c, "number", func() (int, error) { return 1, nil }); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Remove(t.Context()), c.Remove(t.Context())); err != nil ||
		!slices.Equal(removed, []string{"second", "first"}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}
