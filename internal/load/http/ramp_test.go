package http

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// limited is a server that can do so many requests per second, and after that
// answers late.
func limited(p *Plan, most int64, tried *[]int64) rateProbe {
	return func(rate int64) (*outcome, error) {
		*tried = append(*tried, rate)
		o := &outcome{plan: *p, tally: newTally()}
		o.plan.Rate = rate
		o.tally.timely = min(rate, most) * int64(p.Time/time.Second)
		took := p.Objective / 2
		if rate > most {
			took = 2 * p.Objective
		}
		o.tally.total.AddMany(took, rate)
		return o, nil
	}
}

// No more requests may go without an answer than the percentile leaves out.
func TestHolds(t *testing.T) {
	for percentile, want := range map[float64]bool{50: true, 99: true, 99.9: false} {
		o := &outcome{
			plan: Plan{Time: time.Second, Objective: 10 * time.Millisecond, Percentile: percentile}, tally: newTally(),
		}
		o.plan.Rate, o.tally.timely = 1000, 985 // of 990 that were due early enough
		o.tally.total.AddMany(time.Millisecond, 985)
		if o.meetsObjective() != want {
			t.Errorf("p%v, 5 of 1000 requests without an answer: holds is %t", percentile, !want)
		}
	}
}

func TestClimb(t *testing.T) {
	p := &Plan{Time: time.Second, Objective: 10 * time.Millisecond, Percentile: 99}
	for _, most := range []int64{1000, 1001, 5000, 123_456, 2 * maxRate} {
		var tried []int64
		best, err := findRate(p, limited(p, most, &tried))
		if err != nil {
			t.Fatal(err)
		}
		want := min(most, maxRate)
		if got := best.plan.Rate; got > want || float64(got) < 0.98*float64(want) {
			t.Errorf("a server of %d: the highest rate is %d, of %v", most, got, tried)
		}
		if len(tried) > 20 {
			t.Errorf("a server of %d: tried %v", most, tried)
		}
	}
	var tried []int64
	if _, err := findRate(p, limited(p, 900, &tried)); err == nil ||
		!strings.Contains(err.Error(), "even 1000 requests per second did not hold: p99 was 20") {
		t.Errorf("%v", err)
	}
	broken := errors.New("broken")
	if _, err := findRate(p, func(int64) (*outcome, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
