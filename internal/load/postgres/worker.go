package postgres

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/socket"
)

// A worker is one thread of the client with its sessions. What is free is a session without a
// transaction.
type worker struct {
	client.Thread
	plan       *plan
	target     *target
	to         socket.Address
	startup    []byte
	prepare    []byte
	answerTime time.Duration // how long the server may take for an answer

	sessions []session
	tally    tally

	err  error        // why this worker has stopped
	stop *atomic.Bool // a worker has failed: all stop
}

// fail stops all workers. The first error stays.
func (w *worker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.stop.Store(true)
}

func (w *worker) failed() bool { return w.err != nil }

// open makes the connections, one after the other, so that none waits for another.
func (w *worker) open() {
	for i := range w.sessions {
		s := &w.sessions[i]
		if w.plan.each {
			w.Free.Push(i)
			continue
		}
		w.Read()
		for w.connect(s); s.phase != idle && !w.failed(); w.checkSilence() {
			w.handleEvents(w.Poll.Wait(checkInterval))
		}
	}
}

// run executes transactions until there are no more, and each has ended.
func (w *worker) run(s client.Schedule) {
	w.Schedule = s
	for w.Read(); !w.over(); w.Read() {
		if w.Busy == 0 {
			w.Turn.Pause(w.Now)
		}
		w.dispatch()
		w.handleEvents(w.Await())
		w.checkSilence()
	}
}

func (w *worker) over() bool { return w.stop.Load() || w.Busy == 0 && w.Schedule.Ended(w.Now) }

// handleEvents handles events, and gives transactions to the sessions that they have made free.
func (w *worker) handleEvents(events []unix.EpollEvent) {
	w.Read()
	for i := range events {
		w.handle(&w.sessions[events[i].Fd], events[i].Events)
		w.dispatch()
	}
}

// dispatch gives transactions to free sessions.
func (w *worker) dispatch() {
	if w.Turn.Over(w.Now) {
		return // what is under way ends, and then the thread rests
	}
	for range w.Free.Len() {
		origin, ok := w.Schedule.Next(w.Now)
		if !ok {
			return
		}
		w.begin(&w.sessions[w.Free.Pop()], origin)
	}
}

// checkInterval is the interval at which sessions are checked for answers that are late.
const checkInterval = 50 * time.Millisecond

// checkSilence fails if a server does not answer.
func (w *worker) checkSilence() {
	if !w.MustCheck() {
		return
	}
	for i := range w.sessions {
		s := &w.sessions[i]
		if s.phase == closed || s.phase == idle || w.Now-s.sent < w.answerTime {
			continue
		}
		w.fail(fmt.Errorf("the server at %s has not answered within %v: look into its log",
			w.target.where(), w.answerTime))
	}
}

// close closes everything. Sessions that are open say goodbye.
func (w *worker) close() {
	for i := range w.sessions {
		s := &w.sessions[i]
		if s.phase == idle {
			_, _ = s.stream.Write(goodbye) // the server notices the end anyway
		}
		if s.phase != closed {
			socket.Close(s.socket.fd)
			s.phase = closed
		}
	}
	w.Poll.Close()
}
