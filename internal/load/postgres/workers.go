package postgres

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load/socket"
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
		poll, err := socket.NewPoll()
		if err != nil {
			ws.close()
			return nil, err
		}
		w := &worker{
			plan: p, target: t, to: to, startup: t.startup(), prepare: p.script.prepare(), patience: t.patience,
			origin: ws.origin, turn: (*turn.Stage)(nil).Clock(ws.origin), poll: poll, tally: newTally(p),
			sessions: make([]session, share(p.clients, i, threads)), stop: stop,
		}
		w.free = newQueue(len(w.sessions))
		for j := range w.sessions {
			seed := random(p.seed) + random(i+j*threads)<<32 // far apart for each client
			w.sessions[j] = session{
				key: j, in: make([]byte, roomOfSession), random: random(seed.next()),
			}
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

// share is one thread's part of a number.
func share(all, thread, threads int) int {
	part := all / threads
	if thread < all%threads {
		part++
	}
	return part
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

// startDelay is how long threads may take to start.
const startDelay = 5 * time.Millisecond

// run executes the plan.
func (ws *workers) run(p *plan) (*round, error) {
	stage := ws.target.turns.Stage(len(ws.all))
	begin := time.Since(ws.origin) + startDelay
	counting := monotonic() + int64(startDelay+p.warmup)
	cpu := affinity.CPUTime()
	var all sync.WaitGroup
	for i, w := range ws.all {
		w.turn = stage.Clock(ws.origin)
		all.Go(func() {
			defer w.turn.End()
			runtime.LockOSThread() // never unlocked: the thread ends with its pinning and timer slack
			socket.Precise()
			if len(ws.target.cpus) > 0 {
				affinity.Pin(ws.target.cpus[i])
			}
			time.Sleep(begin - w.clock())
			w.run(p.schedule(i, len(ws.all), begin))
		})
	}
	all.Wait()
	r := &round{
		tally: newTally(p), cpu: affinity.CPUTime() - cpu, threads: len(ws.all), slices: stage.Slices(), counting: counting,
	}
	for _, w := range ws.all {
		r.tally.add(&w.tally)
		r.sendTime = max(r.sendTime, w.now-begin)
		r.busyWait += w.busyWait
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
