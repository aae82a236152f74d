package network

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The protocols of a session, and the directions of its data.
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
	minDatagram = headerBytes // the header of a datagram
	maxRate     = 1 << 40     // bytes per second
	maxTime     = time.Hour
)

// The requests of a client, in this order. After end, it may open another session. If the client
// takes turns, it lets both sides send for a slice now and then, between begin and end, and asks for
// the counts.
const (
	opOpen  = "open"
	opBegin = "begin"
	opSend  = "send"
	opCount = "count"
	opRest  = "rest"
	opEnd   = "end"
)

// A request is a message of the client on a control connection.
type request struct {
	Op   string   `json:"op"`
	Plan *plan    `json:"plan,omitempty"` // of open
	Sent []uint64 `json:"sent,omitempty"` // of end: datagrams sent on each stream that goes up
}

// A plan describes one session.
type plan struct {
	Echo      bool          `json:"echo,omitempty"` // the server sends everything back; otherwise data streams flow
	Protocol  string        `json:"protocol"`
	Streams   int           `json:"streams"`             // in each direction
	Direction string        `json:"direction,omitempty"` // of data streams
	Size      int           `json:"size_bytes"`          // of one write, or of one datagram
	Rate      int64         `json:"rate,omitempty"`      // bytes per second of each stream of UDP; 0 = as fast as possible
	Single    bool          `json:"single,omitempty"`    // one system call for each datagram
	Warmup    time.Duration `json:"warmup_ns,omitempty"` // before the measured time
	Time      time.Duration `json:"time_ns,omitempty"`   // the measured time
	Pin       bool          `json:"pin,omitempty"`       // each side on CPUs of its own
	Turns     bool          `json:"turns,omitempty"`     // data flow only when the client says so; TCP only
}

// check returns why a server refuses a plan.
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
	case p.Turns && p.Protocol != tcp:
		return errors.New("turns: want tcp")
	case p.Rate < 0 || p.Rate > maxRate:
		return fmt.Errorf("rate %d: want 0 to %d bytes per second", p.Rate, int64(maxRate))
	case p.Warmup < 0 || p.Time <= 0 || p.Warmup > maxTime || p.Time > maxTime:
		return fmt.Errorf("%v after %v: want times up to %v", p.Time, p.Warmup, maxTime)
	default:
		return nil
	}
}

// count is the number of sockets of a session.
func (p *plan) count() int {
	if !p.Echo && p.Direction == both {
		return 2 * p.Streams
	}
	return p.Streams
}

// clientSends reports whether the client sends on a stream. With both directions, the even
// streams go up.
func (p *plan) clientSends(index int) bool {
	return p.Direction == up || p.Direction == both && index%2 == 0
}

// An answer is a message of the server on a control connection.
type answer struct {
	Error  string  `json:"error,omitempty"`
	Key    uint64  `json:"key,omitempty"`    // to open
	CPUs   []int   `json:"cpus,omitempty"`   // to open: CPUs of the server's threads; empty = any
	Joined *int    `json:"joined,omitempty"` // the UDP stream whose knock has come
	Window *window `json:"window,omitempty"` // after begin, when the time is over, or to each count; not for echoes
	Final  *final  `json:"final,omitempty"`  // to end
}

// A window has the counts of one side in the measured time.
type window struct {
	Bytes   int64         `json:"bytes"` // received
	Elapsed time.Duration `json:"elapsed_ns"`
	CPU     time.Duration `json:"cpu_ns"` // of the process
}

// A final has the server's counts at the end of a session.
type final struct {
	Sent  []uint64 `json:"sent,omitempty"` // datagrams sent on each stream that goes down
	Tally tally    `json:"tally"`          // of all datagrams that went up
}
