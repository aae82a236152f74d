package http

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/client"
)

// The constants of a ramp.
const (
	firstRate = 1000 // if no rate is given
	steps     = 6    // of the bisection: to within 1.6 % of the highest rate
)

// ramp finds the highest rate that holds.
func (l *loader) ramp(p Plan) (*load.Report, error) {
	var sent int64 // at all rates
	var span time.Duration
	best, err := findRate(&p, func(rate int64) (*outcome, error) {
		p.Rate = rate
		o, err := l.observe(&p)
		if o != nil {
			sent += o.sent
			span += o.sendTime
		}
		if o != nil && o.tally.good > 0 && errors.Is(err, ErrNoAnswer) {
			err = nil // a server that stops answering ends the ramp, which is no error
		}
		return o, err
	})
	if err != nil {
		return nil, err
	}
	r, err := best.report()
	if err == nil {
		r.Values["http.highest"] = float64(best.plan.Rate)
		best.facts(r, sent, span)
	}
	return r, err
}

// A rateProbe observes one rate.
type rateProbe func(rate int64) (*outcome, error)

// findRate doubles the rate until it no longer holds, and then finds the highest rate that
// holds between the last two.
func findRate(p *Plan, at rateProbe) (*outcome, error) {
	best, high, err := doubleRate(p, at)
	for range steps {
		if err != nil {
			return nil, err
		}
		middle := (best.plan.Rate + high) / 2
		if middle == best.plan.Rate {
			break
		}
		var o *outcome
		if o, err = at(middle); err == nil && o.meetsObjective() {
			best = o
		} else {
			high = middle
		}
	}
	return best, err
}

// doubleRate returns the highest rate that held, and the lowest that did not.
func doubleRate(p *Plan, at rateProbe) (best *outcome, high int64, err error) {
	for high = cmp.Or(p.Rate, firstRate); ; high = min(2*high, maxRate) {
		o, err := at(high)
		switch {
		case err != nil:
			return nil, 0, err
		case !o.meetsObjective() && best == nil:
			return nil, 0, fmt.Errorf("even %d requests per second did not hold: p%v was %v, the objective is %v, "+
				"and %.1f %% of the requests had no good answer in time: start at a lower rate",
				high, p.Percentile, time.Duration(o.percentile()*float64(time.Second)), p.Objective,
				100*o.missedShare(p.Objective.Seconds()))
		case !o.meetsObjective():
			return best, high, nil
		case high == maxRate:
			return o, high, nil
		}
		best = o
	}
}

// meetsObjective reports whether the answers met the objective and kept up with the rate. The share
// of requests without a good answer may not exceed what the percentile leaves out.
func (o *outcome) meetsObjective() bool {
	objective := o.plan.Objective.Seconds()
	missed := min(client.MaxMissed, 1-o.plan.Percentile/100)
	return !o.gaveUp && o.percentile() <= objective && o.missedShare(objective) <= missed
}

func (o *outcome) percentile() float64 { return o.tally.total.Percentile(o.plan.Percentile) }
