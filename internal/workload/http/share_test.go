package http

import (
	"errors"
	"testing"
	"time"
)

// The tries of a rehearsal take as long as a trial together, and the least counts.
func TestRehearsal(t *testing.T) {
	for trial, want := range map[string]time.Duration{"2s": 400 * time.Millisecond, "10ms": shortestTry} {
		if got := tryTime(trial); got != want {
			t.Errorf("a try for trials of %s takes %v, want %v", trial, got, want)
		}
	}
	r := &rehearsal{}
	for _, rate := range []float64{900, 0, 700, 800} {
		r.Record(Rate, rate)
		r.Record("http.elapsed", 1)
	}
	if r.least != 700 {
		t.Errorf("the least of three is %v", r.least)
	}
}

// A cell can do what most of its tries have shown, and one in which most have failed says
// why.
func TestVerdict(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		failed int
		least  float64
		says   string // "" = all is well
	}{
		{0, 700, ""},
		{2, 700, ""},
		{3, 700, "3 of 5 tries failed, the first: refused"},
		{2, 0, "refused"},
		{0, 0, "no good answer came in time"},
	} {
		r := &rehearsal{least: test.least}
		for i := range tries {
			if i < test.failed {
				r.hear(refused)
			} else {
				r.hear(nil)
			}
		}
		got := ""
		if err := r.verdict(); err != nil {
			got = err.Error()
		}
		if got != test.says {
			t.Errorf("%d failed, at least %v: %q, want %q", test.failed, test.least, got, test.says)
		}
	}
}

// What each cell gets is a share of what the slowest can do, and cells with other
// options are compared with one another alone.
func TestCapacities(t *testing.T) {
	c := newCapacities()
	small, large := map[string]string{"size": "1KB"}, map[string]string{"size": "1MB"}
	c.learn(small, 20_000)
	c.learn(small, 9_999)
	c.learn(small, 30_000)
	c.learn(large, 0.5)
	if got := c.rate(small, 0.7); got != "6999" {
		t.Errorf("70 %% of the slowest is %s", got)
	}
	if got := c.rate(large, 0.7); got != "1" {
		t.Errorf("the least rate is %s", got)
	}
}
