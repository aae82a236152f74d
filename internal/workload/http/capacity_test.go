package http

import (
	"errors"
	"testing"
	"time"
)

// The tries of a measurement of capacity take as long as a trial together, and the least counts.
func TestRehearsal(t *testing.T) {
	for trial, want := range map[string]time.Duration{"2s": 400 * time.Millisecond, "10ms": shortestTry} {
		if got := tryDuration(trial); got != want {
			t.Errorf("a try for trials of %s takes %v, want %v", trial, got, want)
		}
	}
	r := &capacityRecorder{}
	for _, rate := range []float64{900, 0, 700, 800} {
		r.Record(Rate, rate)
		r.Record("http.elapsed", 1)
	}
	if r.lowest != 700 {
		t.Errorf("the least of three is %v", r.lowest)
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
		r := &capacityRecorder{lowest: test.least}
		for i := range tries {
			if i < test.failed {
				r.tryEnded(refused)
			} else {
				r.tryEnded(nil)
			}
		}
		got := ""
		if err := r.err(); err != nil {
			got = err.Error()
		}
		if got != test.says {
			t.Errorf("%d failed, at least %v: %q, want %q", test.failed, test.least, got, test.says)
		}
	}
}

// What each cell gets is a share of what the slowest can do that it is compared with,
// whatever else is asked of them.
func TestCapacities(t *testing.T) {
	c := newCapacities()
	c.add("clients=8", 20_000)
	c.add("clients=8", 9_999)
	c.add("clients=8", 30_000)
	c.add("clients=1", 0.5)
	if got := c.rate("clients=8", 0.7); got != "6999" {
		t.Errorf("70 %% of the slowest is %s", got)
	}
	if got := c.rate("clients=1", 0.7); got != "1" {
		t.Errorf("the least rate is %s", got)
	}
}

// A resumed run goes on with the rate that it had, also in cells that had no trial yet.
func TestCapacitiesOfAResumedRun(t *testing.T) {
	c := newCapacities()
	c.add("", 500) // of a cell that had no trial yet
	c.setRate("", 0.7, 699)
	if got := c.rate("", 0.7); got != "699" {
		t.Errorf("70 %% is %s, and was 699", got)
	}
	if got := c.rate("", 0.5); got != "250" {
		t.Errorf("50 %%, which the run did not have, is %s of 500", got)
	}
	if got := c.rate("clients=1", 0.7); got != "1" {
		t.Errorf("in another condition 70 %% is %s of nothing", got)
	}
}
