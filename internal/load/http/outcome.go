package http

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A pool sends requests. It keeps its connections from one round to the next.
type pool interface {
	// round sends the requests of a plan once, and returns when each was answered or
	// has failed.
	round(p *Plan) round
	// close closes the connections, and returns the results of all requests.
	close() tally
}

// A round is one execution of the requests of a plan.
type round struct {
	countFrom time.Duration // when they began to count
	sendTime  time.Duration // from the first to the last request
	cpu       time.Duration // CPU time of the client, per CPU
	all       counts        // of this round and those before it
	sent      int64         // requests of these rounds, with those that do not count
	slices    []float64     // the speeds in its slices, if it took turns
	gaveUp    bool
}

// An outcome is the result of one observation.
type outcome struct {
	plan     Plan
	tally    tally
	rounds   []speed
	slices   []float64
	elapsed  time.Duration // of the requests that count
	cpu      time.Duration // of each CPU of the client
	sent     int64         // requests, with those that do not count
	sendTime time.Duration // from the first to the last of them
	gaveUp   bool          // a round gave up, or had no good answer: then there is no report
}

// A speed is the speed of one round, per second.
type speed struct{ rate, transfer float64 }

// observe lets a pool send the requests of the plan as often as the plan and its time
// allow. Only the first round has a warm-up: the others have open connections.
func (o *outcome) observe(c pool) {
	plan, before := o.plan, counts{}
	for range max(1, plan.Repeat) {
		r := c.round(&plan)
		o.add(&r, before)
		if o.gaveUp || o.elapsed >= plan.Time {
			break
		}
		plan.Warmup, before = 0, r.all
	}
	o.tally = c.close()
}

// add joins one more round.
func (o *outcome) add(r *round, before counts) {
	elapsed := o.plan.Time
	if o.plan.Requests > 0 {
		elapsed = max(r.all.last-r.countFrom, 1)
	}
	o.rounds = append(o.rounds, speed{
		rate:     float64(r.all.timely-before.timely) / elapsed.Seconds(),
		transfer: float64(r.all.bytes-before.bytes) / elapsed.Seconds(),
	})
	o.elapsed += elapsed
	o.slices = append(o.slices, r.slices...)
	o.sendTime += r.sendTime
	o.cpu += max(0, r.cpu)
	o.sent = r.sent
	o.gaveUp = r.gaveUp || r.all.good == before.good
}

// median is the median over the rounds.
func (o *outcome) median(of func(speed) float64) float64 {
	all := make([]float64, len(o.rounds))
	for i, s := range o.rounds {
		all[i] = of(s)
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// ErrNoAnswer is wrapped by the error of a client that could not measure.
var ErrNoAnswer = errors.New("the server does not answer")

// errTooShort is wrapped by the error of a client to which the server may yet answer.
var errTooShort = errors.New("no answer came within the time: choose a longer one")

// failure returns an error if the observation has no useful result.
func (o *outcome) failure() error {
	switch {
	case o.tally.good == 0 && o.failureText() == "":
		return fmt.Errorf("%w: %w", ErrNoAnswer, errTooShort)
	case o.tally.good == 0:
		return fmt.Errorf("%w: no good answer%s%s", ErrNoAnswer, o.failureText(), o.advice())
	case o.gaveUp && o.plan.Repeat > 1:
		return fmt.Errorf(
			"%w any more: it stopped in round %d of at most %d (%d requests each), after %d good answers%s",
			ErrNoAnswer, len(o.rounds), o.plan.Repeat, o.plan.Requests, o.tally.good, o.failureText())
	case o.gaveUp:
		return fmt.Errorf("%w any more: after %d good answers, none came for %v%s",
			ErrNoAnswer, o.tally.good, max(maxTimeouts*o.plan.Timeout, minGiveUpTime), o.failureText())
	default:
		return nil
	}
}

// advice is for a server that answers, but not with a good answer: perhaps the path is
// wrong.
func (o *outcome) advice() string {
	if o.tally.failed[FailedLength]+o.tally.failed[FailedStatus] == 0 {
		return ""
	}
	return ": choose another path with option path"
}

// failureText lists the failures: their number, and the first error of each kind.
func (o *outcome) failureText() string {
	var text strings.Builder
	for k, why := range o.tally.why {
		if why != nil {
			fmt.Fprintf(&text, "; %v: %d failed, such as: %v", Kind(k), o.tally.failed[k], why)
		}
	}
	return text.String()
}
