// Package http is the load of a web server: a client that sends requests over HTTP/1.1
// and times the answers, and a file server for cells without a server of their own.
//
// The client has one thread for each of its CPUs. Each thread has its own connections,
// and waits for all of them at once (epoll); conn.go shows their phases. While it
// measures, it allocates nothing, and keeps only the length of an answer. In a closed
// loop, a connection sends its next request after the answer to the last one. In an open
// loop, requests are due at a fixed rate, whatever the server does, and each is timed
// from when it was due.
package http

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
)

// Name is the name of the client's load.
const Name = "http"

// Run runs the load http.
func Run(a *load.Args) (*load.Report, error) { return RunWith(a, nil) }

// RunWith is Run with another client for the requests; nil means this package's own. The
// caller must have read that client's options from a.
func RunWith(a *load.Args, client func(*Plan, *Target) Client) (*load.Report, error) {
	p, err := Read(a)
	if err != nil {
		return nil, err
	}
	t, err := targetOf(a)
	if err = errors.Join(err, a.Err(), p.Check()); err != nil {
		return nil, err
	}
	if err := raiseFileLimit(p.Connections); err != nil {
		return nil, err
	}
	if client == nil {
		defer load.SetThreads(max(1, len(t.cpus)) + runtimeThreads)()
	}
	l := &loader{&t, client}
	if err := l.await(p); err != nil {
		return nil, err
	}
	if client == nil && p.TakesTurns() {
		t.turns = a.Turns
	} else {
		a.Turns.Whole() // not in the turn in which it prepared itself: the others may not have measured what comes before
	}
	if p.Ramp {
		return l.ramp(p)
	}
	o, err := l.observe(&p)
	if err != nil {
		return nil, err
	}
	r, err := o.report()
	if err != nil || t.turns == nil {
		return r, err
	}
	return r, l.stretch(r, o, p)
}

// stretch sends requests again in one turn that nothing interrupts. Of a server that takes longer for an answer, it tells
// nothing.
func (l *loader) stretch(r *load.Report, before *outcome, p Plan) error {
	l.turns.Whole()
	l.turns = nil
	p = p.uninterrupted()
	o, err := l.observe(&p)
	if err != nil && !errors.Is(err, errTooShort) {
		return err
	}
	o.facts(r, before.sent+o.sent, before.sendTime+o.sendTime) // whoever counts the server's work counts this too
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

// Stretches lists the metrics that are measured in an uninterrupted stretch too.
func Stretches() []string { return []string{"http.rate", "http.time.p50", "http.time.p99"} }

// A loader executes plans.
type loader struct {
	*Target
	client func(*Plan, *Target) Client // nil = workers
}

// observe sends the requests of a plan.
func (l *loader) observe(p *Plan) (*outcome, error) {
	c, err := l.newPool(p)
	if err != nil {
		return nil, err
	}
	o := &outcome{plan: *p}
	o.observe(c)
	return o, o.failure()
}

// newPool returns the pool that sends the requests of a plan.
func (l *loader) newPool(p *Plan) (pool, error) {
	if l.client == nil {
		return newWorkers(p, l.Target)
	}
	return newClientPool(p, l.Target, l.client(p, l.Target)), nil
}

// await sends requests until there is a good answer.
func (l *loader) await(p Plan) error {
	const pause, answerTime = 20 * time.Millisecond, time.Second
	p.Connections, p.Requests, p.Repeat, p.Rate, p.Ramp, p.Warmup, p.Timeout = 1, 1, 1, 0, false, 0, answerTime
	for end := time.Now().Add(l.wait); l.wait > 0; time.Sleep(pause) {
		_, err := l.observe(&p)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
	return nil
}

// runtimeThreads is the number of processors that Go's runtime needs besides the threads that keep
// one to themselves.
const runtimeThreads = 4

// extraFiles is the number of files that a process has open besides its connections.
const extraFiles = 64

// raiseFileLimit raises the limit of open files for a number of connections.
func raiseFileLimit(connections int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	need := uint64(connections + extraFiles)
	if l.Cur >= need {
		return nil
	}
	l.Cur, l.Max = need, max(l.Max, need)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("%d connections: the limit of open files (ulimit -n) is too low, and raising it failed: %w",
			connections, err)
	}
	return nil
}
