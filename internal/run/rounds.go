package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/schedule"
)

// Cells that take turns have their trials of a block at the same time, one of which gets on while
// the others wait. Each trial is a goroutine of its own, and only the one with the baton runs:
//
//	trial    begin ─► runs to its first stage ─► Wait ─► a slice ─► Wait ─► … ─► ends
//	rounds   gives the baton to one trial, until that one waits or ends; then to the next
//
// First each trial gets on to its first stage. Then there are rounds. In each, all trials that are at
// the lowest stage get one turn, in a random order.

// turns are the turns of a cell: a bench.Turns that belongs to the trial of the present block.
type turns struct {
	trial   *member // nil outside of blocks
	off     bool    // the containers of its condition cannot be given turns
	limited bool    // its own have a limit that works in periods
}

// partStages is more than the number of stages of a part.
const partStages = 1 << 16

// Part implements bench.Turns.
func (t *turns) Part(number int) { t.trial.stage = max(t.trial.stage, number*partStages) }

// On implements bench.Turns.
func (t *turns) On() bool { return !t.off && t.trial != nil }

// Wait implements bench.Turns.
func (t *turns) Wait(ctx context.Context, begins bool) (time.Duration, error) {
	if begins {
		t.trial.stage++
	}
	return t.next(ctx, func() {})
}

// WaitSettled implements bench.Turns.
func (t *turns) WaitSettled(ctx context.Context) error {
	t.trial.stage++
	_, err := t.next(ctx, func() { t.trial.settle(ctx) })
	return err
}

// next gives the baton back until it comes again, and then calls ready.
func (t *turns) next(ctx context.Context, ready func()) (time.Duration, error) {
	t.trial.yield(ready)
	if err := context.Cause(ctx); err != nil || !t.off {
		return t.trial.slice, err
	}
	return 0, fmt.Errorf("%w, or another one of its condition cannot", bench.ErrNoTurns)
}

// A member is one of the trials of a block that take turns.
type member struct {
	trial bench.Trial
	slice time.Duration
	clock func() time.Duration
	watch *watch

	settle      func(context.Context) // waits until the effects of the others' last turns are gone
	begin       func()                // runs the trial; nil once it has begun
	fatal       func()                // ends the other trials
	baton, back chan struct{}         // back has room for one, so that a stuck trial that ends after all is not in the way
	stage       int                   // that it has reached, from 1
	since       time.Duration         // when it got the baton
	spent       time.Duration         // with the baton, before
	left        time.Duration         // that it may have the baton in all
	limit       *time.Timer           // ends the trial after that
	watched     bool                  // instruments watch it
	usage       usage                 // what tare itself used in it
	counts      bool                  // usage is counted
	over        chan struct{}         // closed when its context has ended

	unwatched time.Duration // with the baton, while instruments did not watch

	stuck   atomic.Bool // it did not come back: nothing below may be read
	ended   bool
	sample  bench.Sample
	refused error // wraps bench.ErrNoTurns: why it must run whole instead
	err     error // why the run cannot continue
}

// yield gives the baton back until it comes again, and then calls ready. What that and looking at counters at both ends
// of a turn cost is not in what tare used in the trial: nothing is measured at that time.
func (m *member) yield(ready func()) {
	if m.stuck.Load() {
		<-m.baton // nobody gives it: the run is ending, and what the others measure is none of its business
	}
	resume := func() {}
	if m.counts {
		m.usage.end(m.clock)
	}
	if m.watched {
		resume = m.watch.suspend()
	}
	m.spent = m.now()
	m.limit.Stop()
	m.back <- struct{}{}
	<-m.baton
	m.since = m.clock()
	m.limit.Reset(max(m.left-m.spent, 0))
	ready()
	m.unwatched += m.clock() - m.since
	resume()
	if m.counts {
		m.usage.begin(m.clock)
	}
}

// now is how long the member has had the baton.
func (m *member) now() time.Duration { return m.spent + m.clock() - m.since }

// watching says whether instruments watch the member, if there is one.
func (m *member) watching(now bool) {
	if m != nil {
		m.watched = now
	}
}

// usageOr returns what counts tare's own usage: the member's, if there is one.
func (m *member) usageOr(runs *usage) *usage {
	if m == nil {
		return runs
	}
	m.counts = true
	return &m.usage
}

// watchedTime is how long the member has had the baton while instruments watched.
func (m *member) watchedTime() time.Duration { return m.now() - m.unwatched }

// isLeft reports whether the rounds have left the member behind.
func (m *member) isLeft() bool { return m != nil && m.stuck.Load() }

// getOn lets the member run until it waits for its next turn, or ends. One that does not even
// end after its limit is left behind, and the run cannot continue.
func (m *member) getOn() {
	if begin := m.begin; begin != nil {
		m.begin = nil
		go begin()
	}
	m.baton <- struct{}{}
	select {
	case <-m.back:
	case <-m.over:
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-m.back:
		case <-late.C:
			m.stuck.Store(true)
			m.fatal()
			return
		}
	}
	if m.err != nil {
		m.fatal() // the others end when their next turn comes
	}
}

// together runs the trials of a block whose cells take turns, and returns the samples of those that have begun,
// in the order of the trials. The error, if any, says why the run cannot continue.
func (r *runner) together(ctx context.Context, trials []bench.Trial) ([]bench.Sample, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	members := make([]*member, len(trials))
	for i, t := range trials {
		members[i] = r.member(ctx, cancel, t)
	}
	for _, m := range members {
		r.getOn(m)
	}
	order, part := orderOf(&r.plan, trials[0].Block), -1
	for told := r.Clock(); ; {
		if now := r.Clock(); now-told >= time.Second {
			told = now
			r.observe(TurnsTaken{trials[0].Block})
		}
		round := slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.stuck.Load() || m.ended })
		if len(round) == 0 {
			break
		}
		lowest := slices.MinFunc(round, func(a, b *member) int { return a.stage - b.stage }).stage
		round = slices.DeleteFunc(round, func(m *member) bool { return m.stage > lowest })
		if now := lowest / partStages; now != part { // all cells have started what the part needs
			part = now
			r.settle(ctx)
		}
		for _, i := range schedule.Order(order, len(round)) {
			r.getOn(round[i])
		}
	}
	return r.samplesOf(ctx, members)
}

// samplesOf returns the samples of members that have ended or were left behind. Those that could not be given turns
// run whole first.
func (r *runner) samplesOf(ctx context.Context, members []*member) (samples []bench.Sample, err error) {
	for _, m := range members {
		if m.stuck.Load() {
			err = &fatalError{fmt.Errorf("the trial %w", errStuck)}
			continue
		}
		r.usage.cpu, r.usage.wall = r.usage.cpu+m.usage.cpu, r.usage.wall+m.usage.wall
		if own := r.turns[m.trial.Cell]; own != nil {
			own.trial = nil
		}
		if err == nil {
			err = m.err
		}
	}
	for _, m := range members {
		switch {
		case m.stuck.Load(): // its own sample may still be written
			samples = append(samples, bench.Sample{
				Trial: m.trial, Began: r.Now().UTC(), Outcome: bench.TimedOut, Reason: bench.Reason(err.Error()),
			})
		case err == nil && m.refused != nil && ctx.Err() == nil:
			var s bench.Sample
			s, err = r.again(ctx, m)
			samples = append(samples, s)
		case m.begin == nil: // otherwise it has not begun
			samples = append(samples, m.sample)
		}
	}
	return samples, err
}

// getOn lets a member get on. If it cannot be given turns, its condition takes none from now on: the other
// trials of it end when their next turn comes, with the same error, and those that have not begun do not.
func (r *runner) getOn(m *member) {
	if own := r.turns[m.trial.Cell]; own != nil && own.off && m.begin != nil {
		m.ended, m.refused = true, bench.ErrNoTurns
		return
	}
	m.getOn()
	if m.stuck.Load() || !m.ended || m.refused == nil {
		return
	}
	r.runWhole(r.plan.Cells[m.trial.Cell].Condition)
	if own := r.turns[m.trial.Cell]; own != nil && errors.Is(m.refused, bench.ErrPeriodicLimit) {
		own.limited = true
	}
}

// again runs a trial whole that could not be given turns, and returns its one sample. What was tried before
// is part of its time.
func (r *runner) again(ctx context.Context, m *member) (bench.Sample, error) {
	s, err := r.trial(ctx, m.trial, nil)
	if !m.sample.Began.IsZero() {
		s.Began, s.Elapsed = m.sample.Began, s.Elapsed+m.sample.Elapsed
	}
	return s, err
}

// runWhole takes the cells of a condition out of the rounds, all of them: what takes turns is not
// compared with what does not.
func (r *runner) runWhole(condition string) {
	for cell, c := range r.plan.Cells {
		if own := r.turns[cell]; own != nil && c.Condition == condition {
			own.off = true
		}
	}
}

// member returns a trial that begins when it gets the baton.
func (r *runner) member(ctx context.Context, cancel func(), t bench.Trial) *member {
	m := &member{
		trial: t, slice: r.plan.Slice, clock: r.Clock, watch: &r.watch, fatal: cancel,
		settle: r.settle, baton: make(chan struct{}), back: make(chan struct{}, 1), over: make(chan struct{}),
	}
	if own := r.turns[t.Cell]; own != nil {
		own.trial = m
	}
	m.begin = func() {
		<-m.baton
		m.since = r.Clock()
		m.sample, m.err = r.trial(ctx, t, m)
		m.ended = true
		m.back <- struct{}{}
	}
	return m
}

// orderOf returns the source of the order of turns in a block, which differs from run to run as the order of trials
// does. It depends on nothing else: a run that is resumed has the order that it would have had.
func orderOf(p *bench.Plan, block int) *rand.PCG {
	const stream = 0x7475726e73 // "turns": another one than that of the schedule
	return rand.NewPCG(p.Seed, stream+uint64(block))
}
