package http

import (
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
