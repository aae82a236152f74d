package http

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load/socket"
	"github.com/tare-bench/tare/internal/load/turn"
)

// workers are the threads of the client, one for each of its CPUs.
type workers struct {
	turns  *turn.Page // nil = it takes none
	cpus   []int      // empty = one thread on any CPU
	origin time.Time
	all    []*worker
}

func newWorkers(p *Plan, t *Target) (*workers, error) {
	threads := min(max(1, len(t.cpus)), p.Connections)
	ws := &workers{turns: t.turns, cpus: t.cpus, origin: time.Now()}
	expect := &atomic.Int64{}
	expect.Store(t.expect)
	for i := range threads {
		w, err := newWorker(p, t, expect, ws.origin, int(threadShare(int64(p.Connections), i, threads)))
		if err != nil {
			ws.close()
			return nil, err
		}
		ws.all = append(ws.all, w)
	}
	return ws, nil
}

// startDelay is how long threads may take to start.
const startDelay = 5 * time.Millisecond

// round implements pool.
func (ws *workers) round(p *Plan) round {
	stage := ws.turns.Stage(len(ws.all))
	begin := time.Since(ws.origin) + startDelay
	cpu, busyWait := affinity.CPUTime(), ws.busyWait()
	var all sync.WaitGroup
	for i, w := range ws.all {
		w.turn = stage.Clock(ws.origin)
		all.Go(func() {
			defer w.turn.End()
			runtime.LockOSThread() // never unlocked: the thread ends with its pinning and timer slack
			socket.Precise()
			if len(ws.cpus) > 0 {
				affinity.Pin(ws.cpus[i])
			}
			time.Sleep(begin - w.clock())
			w.run(p.scheduleOf(i, len(ws.all), begin))
		})
	}
	all.Wait()
	r := round{slices: stage.Slices(), countFrom: begin + p.Warmup, sendTime: ws.last() - begin}
	r.cpu = (affinity.CPUTime() - cpu - (ws.busyWait() - busyWait)) / time.Duration(len(ws.all))
	for _, w := range ws.all {
		r.all.add(w.tally.counts)
		r.sent += w.sent
		r.gaveUp = r.gaveUp || w.gaveUp
	}
	return r
}

// last is when the last thread ended, on its clock.
func (ws *workers) last() (end time.Duration) {
	for _, w := range ws.all {
		end = max(end, w.now)
	}
	return end
}

// busyWait is the CPU time of polling without an event.
func (ws *workers) busyWait() (sum time.Duration) {
	for _, w := range ws.all {
		sum += w.busyWait
	}
	return sum
}

// close implements pool.
func (ws *workers) close() (t tally) {
	for i, w := range ws.all {
		if w.end(); i == 0 {
			t = w.tally
		} else {
			t.add(&w.tally)
		}
	}
	return t
}
