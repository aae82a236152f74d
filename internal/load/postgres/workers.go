package postgres

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/turn"
)

// workers are the threads of the client, one for each of its CPUs.
type workers struct {
	target *target
	origin time.Time
	all    []*worker
}

// newWorkers returns workers whose sessions are connected, unless the plan connects each time.
func newWorkers(p *plan, t *target) (*workers, error) {
	to, err := t.address()
	if err != nil {
		return nil, err
	}
	ws := &workers{target: t, origin: time.Now()}
	threads := min(max(1, len(t.cpus)), p.clients)
	stop := &atomic.Bool{}
	for i := range threads {
		sessions := make([]session, client.Share(int64(p.clients), i, threads))
		thread, err := client.New(len(sessions), checkInterval, false) // a transaction takes long: see New
		if err != nil {
			ws.close()
			return nil, err
		}
		thread.Turn = (*turn.Stage)(nil).Clock(ws.origin)
		for j := range sessions {
			seed := random(p.seed) + random(i+j*threads)<<32 // far apart for each client
			sessions[j] = session{key: j, in: make([]byte, roomOfSession), random: random(seed.next())}
		}
		w := &worker{
			Thread: thread, plan: p, target: t, to: to, startup: t.startup(), prepare: p.script.prepare(),
			answerTime: t.answerTime, tally: newTally(p), sessions: sessions, stop: stop,
		}
		ws.all = append(ws.all, w)
		w.open()
	}
	if err := ws.err(); err != nil {
		ws.close()
		return nil, err
	}
	return ws, nil
}

// A round is one execution of a plan.
type round struct {
	tally    tally
	sendTime time.Duration // from the first transaction to the end of the last
	cpu      time.Duration // of the client
	busyWait time.Duration // the part of it that was polling without an event
	threads  int
	slices   []float64 // transactions per second in each turn; nil without turns
	counting int64     // when transactions began to count: CLOCK_MONOTONIC, in nanoseconds
}

// run executes the plan.
func (ws *workers) run(p *plan) (*round, error) {
	times, threads := p.times(), len(ws.all)
	span := client.Run(ws.target.turns, ws.target.cpus, ws.origin, threads,
		func(i int, clock *turn.Clock, begin time.Duration) {
			w := ws.all[i]
			w.Turn = clock
			w.run(times.Schedule(i, threads, begin))
		})
	r := &round{
		tally: newTally(p), cpu: span.CPU, threads: threads, slices: span.Slices,
		counting: monotonic() - int64(time.Since(ws.origin)-span.Begin-p.warmup),
	}
	for _, w := range ws.all {
		r.tally.add(&w.tally)
		r.sendTime = max(r.sendTime, w.Now-span.Begin)
		r.busyWait += w.BusyWait
	}
	return r, ws.err()
}

// monotonic reads CLOCK_MONOTONIC, in nanoseconds; 0 if there is none.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}

// err returns the first error of each worker.
func (ws *workers) err() (err error) {
	for _, w := range ws.all {
		err = errors.Join(err, w.err)
	}
	return err
}

func (ws *workers) close() {
	for _, w := range ws.all {
		w.close()
	}
}
