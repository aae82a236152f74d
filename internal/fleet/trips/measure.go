package trips

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// How long a meeting measures over one network, and how much of it must be good.
const (
	warmup      = 50 * time.Millisecond
	measured    = 300 * time.Millisecond
	maxLost     = 100    // one of so many requests may be lost
	minAnswers  = 5      // fewer have no median worth the name
	maxInARow   = 2      // after so many lost requests, nobody answers
	maxRequests = 60_000 // 5 µs each
)

// measure sends one request after the other. A request that is not answered within a fifth of a second is lost. Losses
// are an error, never a time: then into stays as it is.
func measure(ctx context.Context, into *pairs.Trip, at netip.AddrPort, token []byte) error {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return fmt.Errorf("UDP %v: %w", at, err)
	}
	c := &client{at: at, tag: tagOf(token), number: uint64(rand.Uint32()) << 32}
	if c.fd, err = blocking(conn); err != nil {
		return fmt.Errorf("UDP %v: %w", at, err)
	}
	defer func() { _ = unix.Close(c.fd) }() // everything is read
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.series(ctx, warmup); err != nil {
		return err
	}
	c.times, c.sent, c.lost = c.times[:0], 0, 0
	if err := c.series(ctx, measured); err != nil {
		return err
	}
	switch {
	case c.lost*maxLost > c.sent:
		return fmt.Errorf("UDP %v: %d of %d requests were lost", at, c.lost, c.sent)
	case len(c.times) < minAnswers:
		return fmt.Errorf("UDP %v: only %d answers came in %v: want %d", at, len(c.times), measured, minAnswers)
	}
	slices.Sort(c.times)
	into.Seconds = c.times[len(c.times)/2].Seconds()
	into.Ahead, into.Within = c.ahead.Seconds(), c.within.Seconds()
	return nil
}

// A client is one end of a meeting.
type client struct {
	at     netip.AddrPort
	fd     int
	tag    tag
	number uint64 // of the last request
	buffer packet

	sent, lost, inARow int
	times              []time.Duration
	ahead, within      time.Duration // see pairs.Trip; of the fastest round trip; 0 and 0 before the first
}

// series sends requests for d.
func (c *client) series(ctx context.Context, d time.Duration) error {
	for began := time.Now(); time.Since(began) < d && c.sent < maxRequests; {
		if err := ctx.Err(); err != nil {
			return err
		}
		took, err := c.ping()
		c.sent++
		switch {
		case err == nil:
			c.times, c.inARow = append(c.times, took), 0
		case !errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("UDP %v: %w", c.at, err)
		default:
			c.lost++
			c.inARow++
		}
		if c.inARow >= maxInARow {
			return fmt.Errorf("UDP %v: %d requests in a row had no answer within %v", c.at, c.inARow, wake)
		}
	}
	return nil
}

// ping returns the time of one round trip; EAGAIN if there was no answer in time.
func (c *client) ping() (time.Duration, error) {
	c.number++
	c.buffer.make(c.tag, c.number)
	sent := time.Now()
	if _, err := unix.Write(c.fd, c.buffer[:]); err != nil {
		return 0, err
	}
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buffer[:], unix.MSG_TRUNC)
		came := time.Now()
		took := came.Sub(sent)
		switch {
		case err == nil && c.buffer.is(n, c.tag, answer) && c.buffer.number() == c.number:
			c.compare(sent, came)
			return took, nil
		case took >= wake || errors.Is(err, unix.EAGAIN):
			return 0, unix.EAGAIN
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, err
		}
		// The answer of a request that counts as lost, or something foreign.
	}
}

// compare compares the clocks as NTP does: the way there is taken to be as long as the way back, which is wrong by
// half of both at most. The fastest round trip says most.
func (c *client) compare(sent, came time.Time) {
	sent, came = sent.Round(0), came.Round(0) // by the wall clock
	there, back := c.buffer.time(atReceived).Sub(sent), c.buffer.time(atSent).Sub(came)
	within := (there - back) / 2
	if within > 0 && (c.within == 0 || within < c.within) {
		c.ahead, c.within = (there+back)/2, within
	}
}
