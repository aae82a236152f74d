package network

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
)

// A pinger sends requests and waits for the answer of each.
type pinger struct {
	plan          plan
	pings, warmup int64
	rate          int64 // per second; 0 = the next one at once
	timeout       time.Duration

	side    *side
	client  *client
	fd      int
	request []byte
	buffer  []byte
	inRow   int // lost

	times *load.Histogram
	lost  int64 // without an answer in time; they have no time
}

// mostInRow is how many requests may be lost one after the other: then nobody
// answers any more.
const mostInRow = 10

func (p *pinger) prepare(s *session) {
	p.side, p.client, p.fd = s.side, s.client, s.flows[0].fd
	p.request, p.buffer = make([]byte, p.plan.Size), make([]byte, p.plan.Size)
	p.times = load.NewHistogram()
}

// pingAll sends those to warm up with, and then those that count.
func (p *pinger) pingAll() error {
	if err := p.series(0, p.warmup); err != nil {
		return err
	}
	p.times.Reset()
	p.lost = 0
	return p.series(p.warmup, p.pings)
}

// series sends count requests, of which the first has that number. A request
// that is to be sent at a certain time is timed from then on, also when it was
// sent later because the one before had to be waited for.
func (p *pinger) series(first, count int64) error {
	begin := p.side.now()
	for i := range count {
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
	}
	return nil
}

// ping sends one request and waits for its answer.
func (p *pinger) ping(number uint64, due time.Duration) error {
	putHeader(p.request, p.side.key, number, uint64(due))
	errno := p.exchange(number)
	took := p.side.now() - due
	switch {
	case errno == 0:
		p.times.Add(took)
		p.inRow = 0
		return nil
	case errno != unix.EAGAIN:
		return fmt.Errorf("%w: ping %d: %w", ErrGone, number, errno)
	}
	p.lost++
	p.inRow++
	switch {
	case p.plan.Protocol == tcp:
		return fmt.Errorf("%w: ping %d had no answer within %v, and TCP loses none", ErrGone, number, replyLimit)
	case p.client.gone.Load():
		return fmt.Errorf("%w: it has closed the control connection", ErrGone)
	case p.inRow >= mostInRow:
		return fmt.Errorf("%w: %d pings in a row had no answer within %v", ErrGone, p.inRow, p.timeout)
	default:
		return nil
	}
}

// exchange sends the request and takes in the answer; EAGAIN if it does not come
// in time.
func (p *pinger) exchange(number uint64) syscall.Errno {
	for sent := 0; sent < len(p.request); {
		n, errno := send(p.fd, p.request[sent:])
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
		sent += max(n, 0)
	}
	if p.plan.Protocol == tcp {
		return p.whole()
	}
	return p.datagram(number)
}

// datagram takes in an answer in one piece.
func (p *pinger) datagram(number uint64) syscall.Errno {
	begin := p.side.now()
	for {
		n, errno := receive(p.fd, p.buffer)
		switch {
		case errno == unix.EINTR && p.side.now()-begin < p.timeout:
			continue
		case errno == unix.EINTR: // each time the system began to wait anew
			return unix.EAGAIN
		case errno != 0:
			return errno
		}
		// An answer that comes too late belongs to a request that was lost.
		if got, _, ok := header(p.buffer[:n], p.side.key); ok && got == number {
			return 0
		}
	}
}

// whole takes in an answer that comes in pieces, and waits for as long as a
// stream may need to send once more what got lost.
func (p *pinger) whole() syscall.Errno {
	begin := p.side.now()
	for got := 0; got < len(p.buffer); {
		n, errno := receive(p.fd, p.buffer[got:])
		switch {
		case errno != 0 && again(errno) && !p.client.gone.Load() && p.side.now()-begin < replyLimit:
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
