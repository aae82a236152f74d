package network

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A latencyTest sends requests and waits for the answer of each.
type latencyTest struct {
	turns         *turn.Page
	plan          plan
	pings, warmup int64
	rate          int64 // per second; 0 = each follows the last answer
	timeout       time.Duration

	side       *side
	client     *client
	fd         int
	request    []byte
	buffer     []byte
	lostInARow int         // lost requests in a row
	stage      *turn.Stage // nil with a rate, and so is the clock
	clock      *turn.Clock
	measured   time.Duration // time in which requests that count were sent

	times   *load.Histogram
	stretch *load.Histogram // in one uninterrupted stretch; nil without one
	lost    int64           // requests without an answer in time; they have no time
}

// longestSlice is how long requests are sent in a turn: a thousand of them take less than 0.1 s, in which there are then
// a dozen turns.
const longestSlice = 5 * time.Millisecond

// maxLostInARow is the number of lost requests in a row after which the server counts as gone.
const maxLostInARow = 10

func (p *latencyTest) prepare(s *session) {
	p.side, p.client, p.fd = s.side, s.client, s.flows[0].fd
	p.request, p.buffer = make([]byte, p.plan.Size), make([]byte, p.plan.Size)
	p.times = load.NewHistogram()
}

// pingAll sends the requests of the warm-up, and then those that count.
func (p *latencyTest) pingAll() error {
	if p.rate > 0 { // requests are due whether it has the turn or not
		p.turns.Whole()
	} else {
		p.stage = p.turns.Stage(1).AtMost(longestSlice)
		p.clock = p.stage.Clock(time.Now())
	}
	if err := p.sendSeries(0, p.warmup); err != nil {
		return err
	}
	p.times.Reset()
	p.lost = 0
	if err := p.sendCounted(p.warmup, p.pings); err != nil || p.turns == nil || p.clock == nil {
		return err
	}
	// Some more in one turn that nothing interrupts.
	lost, times := p.lost, p.times
	p.clock.End()
	p.turns.Whole()
	p.clock, p.times = nil, load.NewHistogram()
	err := p.sendCounted(p.warmup+p.pings, p.pings/load.StretchShare)
	p.lost, p.times, p.stretch = lost, times, p.times
	return err
}

// sendCounted is sendSeries for requests that count.
func (p *latencyTest) sendCounted(first, count int64) error {
	now := p.side.now
	if p.clock != nil {
		now = p.clock.Now
	}
	began := now()
	err := p.sendSeries(first, count)
	p.measured += now() - began
	return err
}

// sendSeries sends count requests, numbered from first. With a rate, a request is timed from
// when it is due, even if it is sent later because the answer to the last one was late.
func (p *latencyTest) sendSeries(first, count int64) error {
	begin := p.side.now()
	for i := range count {
		if p.clock != nil {
			p.clock.Pause(p.clock.Now())
		}
		due := p.side.now()
		if p.rate > 0 {
			due = begin + time.Duration(i)*time.Second/time.Duration(p.rate)
			if !p.side.until(due) {
				return ErrGone
			}
		}
		if err := p.ping(uint64(first+i), due); err != nil {
			return err
		}
		if p.clock != nil {
			p.clock.Did(1)
		}
	}
	return nil
}

// ping sends one request and waits for its answer.
func (p *latencyTest) ping(number uint64, due time.Duration) error {
	putHeader(p.request, p.side.key, number, uint64(due))
	errno := p.exchange(number)
	took := p.side.now() - due
	switch {
	case errno == 0:
		p.times.Add(took)
		p.lostInARow = 0
		return nil
	case errno != unix.EAGAIN:
		return fmt.Errorf("%w: ping %d: %w", ErrGone, number, errno)
	}
	p.lost++
	p.lostInARow++
	switch {
	case p.plan.Protocol == tcp:
		return fmt.Errorf("%w: ping %d had no answer within %v, though TCP loses nothing", ErrGone, number, replyLimit)
	case p.client.gone.Load():
		return fmt.Errorf("%w: it has closed the control connection", ErrGone)
	case p.lostInARow >= maxLostInARow:
		return fmt.Errorf("%w: %d pings in a row had no answer within %v", ErrGone, p.lostInARow, p.timeout)
	default:
		return nil
	}
}

// exchange sends the request and receives the answer; EAGAIN if it does not come in time.
func (p *latencyTest) exchange(number uint64) syscall.Errno {
	for sent := 0; sent < len(p.request); {
		n, errno := send(p.fd, p.request[sent:])
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
		sent += max(n, 0)
	}
	if p.plan.Protocol == tcp {
		return p.readAll()
	}
	return p.datagram(number)
}

// datagram receives an answer in one datagram.
func (p *latencyTest) datagram(number uint64) syscall.Errno {
	begin := p.side.now()
	for {
		n, errno := receive(p.fd, p.buffer)
		switch {
		case errno == unix.EINTR && p.side.now()-begin < p.timeout:
			continue
		case errno == unix.EINTR: // each interruption restarted the kernel's timeout
			return unix.EAGAIN
		case errno != 0:
			return errno
		}
		// A late answer belongs to a request that counts as lost.
		if got, _, ok := header(p.buffer[:n], p.side.key); ok && got == number {
			return 0
		}
	}
}

// readAll receives an answer in pieces. It waits long enough for TCP to retransmit.
func (p *latencyTest) readAll() syscall.Errno {
	begin := p.side.now()
	for got := 0; got < len(p.buffer); {
		n, errno := receive(p.fd, p.buffer[got:])
		switch {
		case errno != 0 && isRetryable(errno) && !p.client.gone.Load() && p.side.now()-begin < replyLimit:
		case errno != 0:
			return errno
		case n == 0:
			return unix.ECONNRESET
		default:
			got += n
		}
	}
	return 0
}
