package network

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The protocols of a session, and which way its data go.
const (
	tcp = "tcp"
	udp = "udp"

	up   = "up" // from the client to the server
	down = "down"
	both = "both"
)

// The bounds of a session.
const (
	maxStreams  = 64
	maxSize     = 1 << 20     // of one write or read of TCP
	maxDatagram = 65_507      // of UDP over IPv4
	minDatagram = headerBytes // what a datagram of a stream says about itself
	maxRate     = 1 << 40     // bytes per second
	maxTime     = time.Hour
)

// What a client asks for, in this order: open, begin, end. It may then open
// another session.
const (
	opOpen  = "open"
	opBegin = "begin"
	opEnd   = "end"
)

// A request is what the client says on a control connection.
type request struct {
	Op   string   `json:"op"`
	Plan *plan    `json:"plan,omitempty"` // of open
	Sent []uint64 `json:"sent,omitempty"` // of end: how many datagrams each stream that goes up has sent
}

// A plan is what happens in one session.
type plan struct {
	Echo      bool          `json:"echo,omitempty"` // the server sends back what it gets; else streams flow
	Protocol  string        `json:"protocol"`
	Streams   int           `json:"streams"`             // those of each direction
	Direction string        `json:"direction,omitempty"` // where streams flow
	Size      int           `json:"size_bytes"`          // of one write, or of one datagram
	Rate      int64         `json:"rate,omitempty"`      // bytes per second of each stream of UDP; 0 = as fast as possible
	Single    bool          `json:"single,omitempty"`    // one system call for each datagram
	Warmup    time.Duration `json:"warmup_ns,omitempty"` // before what is measured
	Time      time.Duration `json:"time_ns,omitempty"`   // of what is measured
	Pin       bool          `json:"pin,omitempty"`       // each side on CPUs of its own
}

// check says why a server does not take a plan.
func (p *plan) check() error {
	if p == nil {
		return errors.New("open: no plan")
	}
	least, most := 1, maxSize
	if p.Protocol == udp {
		least, most = minDatagram, maxDatagram
	}
	switch {
	case p.Protocol != tcp && p.Protocol != udp:
		return fmt.Errorf("protocol %.20q: want tcp or udp", p.Protocol)
	case p.Streams < 1 || p.Streams > maxStreams:
		return fmt.Errorf("%d streams: want 1 to %d", p.Streams, maxStreams)
	case p.Size < least || p.Size > most:
		return fmt.Errorf("size %d: want %d to %d bytes for %s", p.Size, least, most, p.Protocol)
	case p.Echo:
		return nil
	case !slices.Contains([]string{up, down, both}, p.Direction):
		return fmt.Errorf("direction %.20q: want up, down or both", p.Direction)
	case p.Rate < 0 || p.Rate > maxRate:
		return fmt.Errorf("rate %d: want 0 to %d bytes per second", p.Rate, int64(maxRate))
	case p.Warmup < 0 || p.Time <= 0 || p.Warmup > maxTime || p.Time > maxTime:
		return fmt.Errorf("%v after %v: want times up to %v", p.Time, p.Warmup, maxTime)
	default:
		return nil
	}
}

// count is how many sockets a session has.
func (p *plan) count() int {
	if !p.Echo && p.Direction == both {
		return 2 * p.Streams
	}
	return p.Streams
}

// goesUp tells whether the client sends on a stream. Of both directions the
// even ones go up.
func (p *plan) goesUp(index int) bool {
	return p.Direction == up || p.Direction == both && index%2 == 0
}

// An answer is what the server says on a control connection.
type answer struct {
	Error  string  `json:"error,omitempty"`
	Key    uint64  `json:"key,omitempty"`    // to open
	CPUs   []int   `json:"cpus,omitempty"`   // to open: where the server's threads run; empty = anywhere
	Joined *int    `json:"joined,omitempty"` // the stream of UDP whose knock has come
	Window *window `json:"window,omitempty"` // after begin, once the time is over; not of echoes
	Final  *final  `json:"final,omitempty"`  // to end
}

// A window is what one side did in the time that is measured.
type window struct {
	Bytes   int64         `json:"bytes"` // that came in
	Elapsed time.Duration `json:"elapsed_ns"`
	CPU     time.Duration `json:"cpu_ns"` // that the process used
}

// A final is the end of a session as the server saw it.
type final struct {
	Sent  []uint64 `json:"sent,omitempty"` // datagrams of each stream that goes down
	Tally tally    `json:"tally"`          // of all datagrams that went up
}
