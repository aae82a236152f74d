package network

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// A side is one end of a session: its sockets, and the threads that work on them.
type side struct {
	pool
	plan   plan
	key    uint64
	server bool
	flows  []*flow
	origin time.Time // of this side's clock

	resting     gate           // holds the threads that send while others have the turn
	sendingOver atomic.Bool    // tells the threads to stop sending
	sending     sync.WaitGroup // threads that send
	stopping    sync.Once
	stopped     chan struct{} // closed when the session must end
}

func newSide(p plan, key uint64, server bool, cpus []int) *side {
	s := &side{
		pool: pool{cpus: cpus}, plan: p, key: key, server: server,
		flows: make([]*flow, p.count()), origin: time.Now(), stopped: make(chan struct{}),
	}
	if p.Turns {
		s.resting.shut()
	}
	return s
}

func (s *side) now() time.Duration { return time.Since(s.origin) }

// join gives a stream its socket, which the side then owns.
func (s *side) join(index, fd int) error {
	if index < 0 || index >= len(s.flows) || s.flows[index] != nil {
		return fmt.Errorf("stream %d: no such stream is missing", index)
	}
	if err := ready(fd, s.plan.Protocol, wakeInterval); err != nil {
		return fmt.Errorf("stream %d: %w", index, err)
	}
	s.flows[index] = &flow{fd: fd, sends: !s.plan.Echo && s.plan.clientSends(index) != s.server}
	return nil
}

// unjoinedStream returns the first stream that has not joined; -1 if all have.
func (s *side) unjoinedStream() int {
	for i, f := range s.flows {
		if f == nil {
			return i
		}
	}
	return -1
}

// begin starts the threads.
func (s *side) begin() {
	var works []func()
	for _, f := range s.flows {
		if f.sends {
			s.sending.Add(1)
		}
		works = append(works, func() { s.work(f) })
	}
	s.start(works...)
}

func (s *side) work(f *flow) {
	switch datagrams := s.plan.Protocol == udp; {
	case s.plan.Echo:
		s.echo(f.fd, make([]byte, max(s.plan.Size, headerBytes)))
	case datagrams && f.sends:
		s.sendDatagrams(f)
		s.sending.Done()
	case datagrams:
		s.receiveDatagrams(f)
	case f.sends:
		s.sendStream(f)
		s.sending.Done()
	default:
		s.receiveStream(f)
	}
}

// measure waits for the warm-up and the measured time, and returns this side's counts of
// the latter; false if the session was stopped early.
func (s *side) measure() (window, bool) {
	if !s.sleep(s.plan.Warmup) {
		return window{}, false
	}
	bytes, cpu, begin := s.bytes(), affinity.CPUTime(), s.now()
	if !s.sleep(s.plan.Time) {
		return window{}, false
	}
	return window{Bytes: s.bytes() - bytes, CPU: affinity.CPUTime() - cpu, Elapsed: s.now() - begin}, true
}

// counts are this side's counts since it began. A window is the difference of two.
func (s *side) counts() window {
	return window{Bytes: s.bytes(), CPU: affinity.CPUTime(), Elapsed: s.now()}
}

// bytes is the number of received bytes.
func (s *side) bytes() int64 {
	var n int64
	for _, f := range s.flows {
		n += f.bytes.Load()
	}
	return n
}

// sleep returns false if the session was stopped before d was over.
func (s *side) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.stopped:
		return false
	}
}

// stopSending stops sending, and waits until the sending threads have ended.
func (s *side) stopSending() {
	s.sendingOver.Store(true)
	s.resting.open()
	s.sending.Wait()
}

// threadError is the error of a thread; nil once this side has stopped sending, because the
// other side may then close its sockets.
func (s *side) threadError(errno syscall.Errno) error {
	if s.sendingOver.Load() {
		return nil
	}
	return errno
}

// sent lists the number of datagrams sent on each stream on which this side sends.
func (s *side) sent() []uint64 {
	var all []uint64
	for _, f := range s.flows {
		if f.sends {
			all = append(all, f.datagrams.Load())
		}
	}
	return all
}

// awaitArrival waits until all sent datagrams have come, or no more come.
func (s *side) awaitArrival(sent []uint64) {
	const look = 5 * time.Millisecond
	var want uint64
	for _, n := range sent {
		want += n
	}
	before := s.received()
	for quiet := time.Duration(0); quiet < settleTime && before < want && s.sleep(look); quiet += look {
		if now := s.received(); now != before {
			before, quiet = now, 0
		}
	}
}

// settleTime is how late a datagram may come after the others.
const settleTime = 200 * time.Millisecond

func (s *side) received() uint64 {
	var n uint64
	for _, f := range s.flows {
		if !f.sends {
			n += f.datagrams.Load()
		}
	}
	return n
}

// endSession ends the session: its threads, and then its sockets. It may be called twice.
func (s *side) endSession() {
	s.stopping.Do(func() {
		close(s.stopped)
		s.sendingOver.Store(true)
		s.resting.open()
		s.stop.Store(true)
		for _, f := range s.flows {
			if f != nil {
				_ = unix.Shutdown(f.fd, unix.SHUT_RDWR) // wakes blocked threads; fails if the peer has gone
			}
		}
		s.end()
		for _, f := range s.flows {
			if f != nil {
				closeAll(f.fd)
			}
		}
	})
}

// err returns the first error of a thread, after the threads have ended.
func (s *side) err() error {
	for i, f := range s.flows {
		if f.err != nil {
			return fmt.Errorf("stream %d: %w", i, f.err)
		}
	}
	return nil
}
