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
	crew
	plan   plan
	key    uint64
	server bool
	flows  []*flow
	origin time.Time // of this side's clock

	quiet    atomic.Bool    // nothing more is to be sent
	sending  sync.WaitGroup // threads that send
	stopping sync.Once
	stopped  chan struct{} // closed when the session is to end
}

func newSide(p plan, key uint64, server bool, cpus []int) *side {
	return &side{
		crew: crew{cpus: cpus}, plan: p, key: key, server: server,
		flows: make([]*flow, p.count()), origin: time.Now(), stopped: make(chan struct{}),
	}
}

func (s *side) now() time.Duration { return time.Since(s.origin) }

// join gives a stream its socket, which is the side's from then on.
func (s *side) join(index, fd int) error {
	if index < 0 || index >= len(s.flows) || s.flows[index] != nil {
		return fmt.Errorf("stream %d: not one that is waited for", index)
	}
	if err := ready(fd, s.plan.Protocol, wakeEvery); err != nil {
		return fmt.Errorf("stream %d: %w", index, err)
	}
	s.flows[index] = &flow{fd: fd, sends: !s.plan.Echo && s.plan.goesUp(index) != s.server}
	return nil
}

// missing is the first stream that has not joined; -1 where all have.
func (s *side) missing() int {
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
		s.shower(f)
		s.sending.Done()
	case datagrams:
		s.catch(f)
	case f.sends:
		s.pour(f)
		s.sending.Done()
	default:
		s.drain(f)
	}
}

// measure waits for the time that is measured, and says what this side did in
// it; false if the session was stopped before it was over.
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

// bytes is what has come in.
func (s *side) bytes() int64 {
	var n int64
	for _, f := range s.flows {
		n += f.bytes.Load()
	}
	return n
}

// sleep returns false if the session was stopped meanwhile.
func (s *side) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.stopped:
		return false
	}
}

// hush ends sending, and waits until this side has sent its last.
func (s *side) hush() {
	s.quiet.Store(true)
	s.sending.Wait()
}

// fault is the error of a thread: none once this side has stopped sending, since
// the other may then close whatever it likes.
func (s *side) fault(errno syscall.Errno) error {
	if s.quiet.Load() {
		return nil
	}
	return errno
}

// sent lists how many datagrams each stream has sent that this side sends on.
func (s *side) sent() []uint64 {
	var all []uint64
	for _, f := range s.flows {
		if f.sends {
			all = append(all, f.datagrams.Load())
		}
	}
	return all
}

// settle waits until everything that was sent has come, or nothing more comes.
func (s *side) settle(sent []uint64) {
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

// settleTime is how long a datagram may be under way after the others.
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

// halt ends the session: its threads, and then its sockets. Twice is fine.
func (s *side) halt() {
	s.stopping.Do(func() {
		close(s.stopped)
		s.quiet.Store(true)
		s.stop.Store(true)
		for _, f := range s.flows {
			if f != nil {
				_ = unix.Shutdown(f.fd, unix.SHUT_RDWR) // wakes who waits; a peer that has gone is shut already
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

// trouble is the first error of a thread, after its end.
func (s *side) trouble() error {
	for i, f := range s.flows {
		if f.err != nil {
			return fmt.Errorf("stream %d: %w", i, f.err)
		}
	}
	return nil
}
