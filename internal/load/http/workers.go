package http

import (
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/load/client"
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
		w, err := newWorker(p, t, expect, int(client.Share(int64(p.Connections), i, threads)))
		if err != nil {
			ws.close()
			return nil, err
		}
		ws.all = append(ws.all, w)
	}
	return ws, nil
}

// round implements pool.
func (ws *workers) round(p *Plan) round {
	times, threads, busyWait := p.times(), len(ws.all), ws.busyWait()
	span := client.Run(ws.turns, ws.cpus, ws.origin, threads, func(i int, clock *turn.Clock, begin time.Duration) {
		w := ws.all[i]
		w.Turn = clock
		w.run(times.Schedule(i, threads, begin))
	})
	r := round{slices: span.Slices, countFrom: span.Begin + p.Warmup, sendTime: ws.last() - span.Begin}
	r.cpu = (span.CPU - (ws.busyWait() - busyWait)) / time.Duration(threads)
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
		end = max(end, w.Now)
	}
	return end
}

// busyWait is the CPU time of polling without an event.
func (ws *workers) busyWait() (sum time.Duration) {
	for _, w := range ws.all {
		sum += w.BusyWait
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
