package capacity

import (
	"errors"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// The tries of a measurement of capacity take as long as a trial together, and the least counts.
func TestRehearsal(t *testing.T) {
	for trial, want := range map[string]time.Duration{"2s": 400 * time.Millisecond, "10ms": shortestTry} {
		if got := TryTime(trial); got != want {
			t.Errorf("a try for trials of %s takes %v, want %v", trial, got, want)
		}
	}
	r := &Recorder{Metric: "rate"}
	for _, rate := range []float64{900, 0, 700, 800} {
		r.Record("rate", rate)
		r.Record("elapsed", 1)
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
		r := &Recorder{lowest: test.least}
		for i := range Tries {
			if i < test.failed {
				r.Part(bench.PartOutcome{Reason: refused.Error()})
			} else {
				r.TryEnded(nil)
			}
		}
		got := ""
		if _, err := r.Capacity(); err != nil {
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
	c := newRates()
	c.add("clients=8", 20_000)
	c.add("clients=8", 9_999)
	c.add("clients=8", 30_000)
	c.add("clients=1", 0.5)
	if got := c.Of("clients=8", "70%"); got != "6999" {
		t.Errorf("70 %% of the slowest is %s", got)
	}
	if got := c.Of("clients=1", "70%"); got != "1" {
		t.Errorf("the least rate is %s", got)
	}
	if got := c.Of("clients=8", "700"); got != "700" {
		t.Errorf("a rate that is no share became %s", got)
	}
}

// A resumed run goes on with the rate that it had, also in cells that had no trial yet.
func TestCapacitiesOfAResumedRun(t *testing.T) {
	c := newRates()
	c.add("", 500) // of a cell that had no trial yet
	c.keep("", 0.7, 699)
	if got := c.Of("", "70%"); got != "699" {
		t.Errorf("70 %% is %s, and was 699", got)
	}
	if got := c.Of("", "50%"); got != "250" {
		t.Errorf("50 %%, which the run did not have, is %s of 500", got)
	}
	if got := c.Of("clients=1", "70%"); got != "1" {
		t.Errorf("in another condition 70 %% is %s of nothing", got)
	}
}

func TestValidRate(t *testing.T) {
	valid := ValidRate(func(rate string) error {
		if rate != "100" {
			return errors.New("no rate")
		}
		return nil
	})
	for rate, want := range map[string]string{
		"70%": "", "100": "", "x": "no rate", "170%": `"170%" is not a whole share from 1% to 100%`,
	} {
		if err := valid(rate); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", rate, err, want)
		}
	}
}
