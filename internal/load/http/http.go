// Package http is the load of a web server: a client that sends requests over
// HTTP/1.1 and times the answers, and a server of files for where there is no
// other.
//
// The client has one thread for each CPU that it is given, each with connections
// of its own, and waits for all of them at once (epoll). While it measures it
// allocates nothing, and of an answer it keeps its length alone. In a closed loop
// a connection sends its next request once it has the answer to the one before;
// in an open loop requests are due at a rate, whatever the server does, and each
// is timed from when it was due.
package http

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
)

// Name is the client's.
const Name = "http"

// Run is the load http.
func Run(a *load.Args) (*load.Report, error) { return RunWith(a, nil) }

// RunWith is Run with the requests of another client; nil is this package's own.
// The options that it needs it has read from a before.
func RunWith(a *load.Args, client func(*Plan, *Target) Client) (*load.Report, error) {
	p, err := Read(a)
	if err != nil {
		return nil, err
	}
	t, err := targetOf(a)
	if err = errors.Join(err, a.Err(), p.Check()); err != nil {
		return nil, err
	}
	if err := roomFor(p.Connections); err != nil {
		return nil, err
	}
	if client == nil {
		defer load.Quiet(max(1, len(t.cpus)) + room)()
	}
	l := &loader{&t, client}
	if err := l.await(p); err != nil {
		return nil, err
	}
	if p.Ramp {
		return l.ramp(p)
	}
	o, err := l.observe(&p)
	if err != nil {
		return nil, err
	}
	return o.report()
}

// A loader carries plans out.
type loader struct {
	*Target
	client func(*Plan, *Target) Client // nil = workers
}

// observe sends the requests of a plan.
func (l *loader) observe(p *Plan) (o *outcome, err error) {
	if l.client == nil {
		o, err = p.work(l.Target)
	} else {
		o = p.ask(l.Target, l.client(p, l.Target))
	}
	if err != nil {
		return nil, err
	}
	return o, o.fatal()
}

// await asks until there is a good answer.
func (l *loader) await(p Plan) error {
	const pause, answerTime = 20 * time.Millisecond, time.Second
	p.Connections, p.Requests, p.Rate, p.Ramp, p.Warmup, p.Timeout = 1, 1, 0, false, 0, answerTime
	for end := time.Now().Add(l.wait); l.wait > 0; time.Sleep(pause) {
		_, err := l.observe(&p)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
	return nil
}

// room is what Go's runtime needs beside threads that it cannot take a processor
// from.
const room = 4

// spareFiles are those that a process has beside its connections.
const spareFiles = 64

// roomFor sees to it that this process may have so many connections open.
func roomFor(connections int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	need := uint64(connections + spareFiles)
	if l.Cur >= need {
		return nil
	}
	l.Cur, l.Max = need, max(l.Max, need)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("%d connections: this process may open fewer files (ulimit -n), and raising the limit failed: %w", connections, err)
	}
	return nil
}

// An outcome is what one observation came to.
type outcome struct {
	plan    Plan
	tally   tally
	elapsed time.Duration // of the requests that count
	cpu     float64       // share of the CPUs of the client
	vain    time.Duration // CPU time of waiting awake
	sent    int64         // requests, also those that do not count
	span    time.Duration // in which they were sent
	gaveUp  bool
}

// lead is how long threads have to get ready.
const lead = 5 * time.Millisecond

// work sends the requests of a plan, on a thread for each CPU.
func (p *Plan) work(t *Target) (*outcome, error) {
	threads := min(max(1, len(t.cpus)), p.Connections)
	origin := time.Now()
	workers, expect := make([]*worker, threads), &atomic.Int64{}
	expect.Store(t.expect)
	for i := range workers {
		w, err := newWorker(p, t, expect, origin, int(share(int64(p.Connections), i, threads)))
		if err != nil {
			return nil, err
		}
		workers[i] = w
	}
	begin := time.Since(origin) + lead
	before := cpuTime()
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with its ways
			precise()
			if len(t.cpus) > 0 {
				pin(t.cpus[i])
			}
			time.Sleep(begin - w.clock())
			w.run(p.paceOf(i, threads, begin))
		})
	}
	all.Wait()
	o := p.sum(workers, begin)
	o.used(time.Since(origin)-begin, cpuTime()-before-o.vain, threads)
	return o, nil
}

// used keeps what the client took: a time, and CPU time of some CPUs.
func (o *outcome) used(span, cpu time.Duration, cpus int) {
	o.span, o.cpu = span, max(cpu, 0).Seconds()/max(span, 1).Seconds()/float64(cpus)
}

// sum joins what the workers found.
func (p *Plan) sum(workers []*worker, begin time.Duration) *outcome {
	o := &outcome{plan: *p, tally: workers[0].tally, elapsed: p.Time}
	for i, w := range workers {
		if i > 0 {
			o.tally.add(&w.tally)
		}
		o.sent += w.sent
		o.vain += w.vain
		o.gaveUp = o.gaveUp || w.gaveUp
	}
	o.close(begin + p.Warmup)
	return o
}

// close ends the time in which requests count, which began at from.
func (o *outcome) close(from time.Duration) {
	if o.plan.Requests > 0 {
		o.elapsed = max(o.tally.last-from, 1)
	}
}

// ErrNoAnswer is wrapped by the error of a client that could not measure.
var ErrNoAnswer = errors.New("the server does not answer")

// fatal is the error of an observation that tells nothing.
func (o *outcome) fatal() error {
	switch {
	case o.tally.good == 0:
		return fmt.Errorf("%w: not one good answer%s", ErrNoAnswer, o.whys())
	case o.gaveUp:
		return fmt.Errorf("%w any more: after %d good answers none came for %v%s", ErrNoAnswer, o.tally.good, max(patience*o.plan.Timeout, leastPatience), o.whys())
	default:
		return nil
	}
}

// whys says how many requests failed, and what happened to the first of each kind.
func (o *outcome) whys() string {
	var text strings.Builder
	for k, why := range o.tally.why {
		if why != nil {
			fmt.Fprintf(&text, "; %v: %d failed, such as: %v", Kind(k), o.tally.failed[k], why)
		}
	}
	return text.String()
}
