package bench

import (
	"math"
	"slices"
	"time"
)

// What the first and the second look at a run may spend of the 5 % that it has for false
// claims; each further look has half of what the one before had. See LookLevel.
const (
	firstLook  = 0.04
	secondLook = 0.00125
)

// LookLevel returns the probability of one false claim or more in a family of tests that
// a look at a run may spend; looks count from 1. They add up to less than 5 %, because
// whoever goes on with a finished run chooses when to look again by what the last look
// showed: that choice uses up the rest (docs/decisions/027-looks.md).
func LookLevel(look int) float64 {
	if look <= 1 {
		return firstLook
	}
	return math.Ldexp(secondLook, 2-look)
}

// An Extension is how a resumption goes on with a run that was finished.
type Extension struct {
	MaxBlocks int           `json:"max_blocks"`          // in place of the plan's
	Budget    time.Duration `json:"budget_ns,omitempty"` // in place of the plan's, earlier sittings included; 0 = none
	Schedule  [][]int       `json:"schedule,omitempty"`  // blocks that follow those that were scheduled before
	After     End           `json:"after"`               // how the run had ended
}

// Follows reports whether this is how a run goes on that ended so; never where end is nil.
func (e *Extension) Follows(end *End) bool {
	return end != nil && e.After.Time.Equal(end.Time) && e.After.Reason == end.Reason && e.After.Overhead == end.Overhead
}

// Extended returns the header with the limits and the schedule that resumptions have left
// it. h is not changed.
func (h Header) Extended(all ...Resumption) Header {
	for _, r := range all {
		if e := r.Extension; e != nil {
			h.Plan.MaxBlocks, h.Plan.Budget = e.MaxBlocks, e.Budget
			h.Schedule = slices.Concat(h.Schedule, e.Schedule)
		}
	}
	return h
}

// Extended returns the run with the header that its resumptions have left it: itself where
// none extended it.
func (r *Run) Extended() *Run {
	if r.Looks() == 1 {
		return r
	}
	extended := *r
	extended.Header = r.Header.Extended(r.Resumptions...)
	return &extended
}

// Looks returns how often the run's verdicts were or are looked at: once for each time
// that it ended and was extended, and once more. That it was interrupted is no look.
func (r *Run) Looks() int {
	n := 1
	for _, again := range r.Resumptions {
		if again.Extension != nil {
			n++
		}
	}
	return n
}
