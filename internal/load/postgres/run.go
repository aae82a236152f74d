package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// RunWith is Run with TLS, for tls=yes; nil means that this program has none.
func RunWith(a *load.Args, encrypt TLS) (*load.Report, error) {
	p := readPlan(a)
	t, err := readTarget(a)
	if err := errors.Join(err, a.Err()); err != nil {
		return nil, err
	}
	if p.tls {
		if t.TLS = encrypt; encrypt == nil {
			return nil, errors.New("tls=yes: the agent has no TLS: use tare's own program, agent load postgrestls")
		}
	}
	defer load.SetThreads(max(1, len(t.cpus)) + runtimeThreads)()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(maxMemory))
	if err := t.await(); err != nil {
		return nil, err
	}
	if p.takesTurns() {
		t.turns = a.Turns
	} else {
		a.Turns.Whole() // not in the turn in which it prepared itself: the others may not have measured what comes before
	}
	o, err := t.observe(&p)
	if err != nil {
		return nil, err
	}
	r, err := o.report()
	if err == nil && p.linger > 0 {
		r.Then = func() {
			time.Sleep(p.linger) // meanwhile the kernel still knows what it has counted for the server's processes
			o.workers.close()
		}
	}
	if err != nil || t.turns == nil {
		return r, err
	}
	return r, t.stretch(r, o)
}

// runtimeThreads is the number of processors that Go's runtime needs besides the threads that keep
// one to themselves.
const runtimeThreads = 4

// maxMemory is where the garbage collector, which is off, works nevertheless: Go's TLS allocates
// memory for each message.
const maxMemory = 1 << 30

// observe executes a plan on connections of its own.
func (t *target) observe(p *plan) (*outcome, error) {
	ws, err := newWorkers(p, t)
	if err != nil {
		return nil, err
	}
	r, err := ws.run(p)
	if err != nil || !p.stay && p.linger == 0 {
		ws.close() // otherwise the kernel does, when this process ends
	}
	if err != nil {
		return nil, err
	}
	o := &outcome{p, ws, r}
	return o, o.failure()
}

// await waits until the server accepts a client.
func (t *target) await() error {
	const pause, answerTime = 20 * time.Millisecond, time.Second
	for end := time.Now().Add(t.wait); t.wait > 0; time.Sleep(pause) {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		c, err := Dial(ctx, t.Config)
		cancel()
		if err == nil {
			return c.Close()
		}
		var told *ServerError
		if errors.As(err, &told) && told.Code != codeStarting || time.Now().After(end) {
			return fmt.Errorf("wait for the server for %v: %w", t.wait, err)
		}
	}
	return nil
}

// Stretches lists the metrics that are measured in an uninterrupted stretch too.
func Stretches() []string { return []string{"rate", "time.p50", "time.p99"} }

// stretch executes the plan again for a while, in one turn that nothing interrupts. Of transactions that take longer, it
// tells nothing.
func (t *target) stretch(r *load.Report, before *outcome) error {
	t.turns.Whole()
	t.turns = nil
	p := *before.plan
	p.time /= load.StretchShare
	o, err := t.observe(&p)
	if err != nil && !errors.Is(err, errTooShort) {
		return err
	}
	// Whoever counts the server's work counts this too.
	o.facts(r, before.tally.begun+o.tally.begun, before.sendTime+o.sendTime)
	r.Values["committed"] += float64(o.tally.committed)
	r.Values["delta"] += float64(o.tally.delta)
	r.Values["refused"] += float64(o.tally.refused)
	if err != nil || o.tally.timely == 0 {
		return nil
	}
	whole, err := o.report()
	if err != nil {
		return err
	}
	r.Measured += whole.Measured
	for _, name := range Stretches() {
		if value, ok := whole.Values[name]; ok {
			r.Values[name+load.StretchSuffix] = value
		}
	}
	return nil
}
