package trips

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// A transfer is one connection, in one direction:
//
//	client   sends a packet that says who sends: bulkUp = the client, bulkDown = the server
//	sender   sends zeros for bulkWarmup + bulkMeasured
//	sender   ends its direction
//	receiver counts what comes in bulkMeasured, beginning bulkWarmup after the first byte
//	server   of bulkUp, says then what it has counted: bytes and nanoseconds, 8 bytes each
const (
	bulkUp, bulkDown = 3, 4 // kinds of packets: see request

	bulkWarmup   = 40 * time.Millisecond  // congestion windows open
	bulkMeasured = 120 * time.Millisecond // two of these, and what belongs to them, fit into a turn
	bulkLimit    = time.Second            // of a transfer
	bulkGreeting = 200 * time.Millisecond // in which a client says who it is

	bulkConnections = 4 // that are served at once: one is usual, others come late
	chunkSize       = 256 << 10
	mebibyte        = 1 << 20
)

// A BulkListener takes part in the transfers of those who know the token.
type BulkListener struct {
	listener *net.TCPListener
	tag      tag
	slots    chan struct{}
	running  sync.WaitGroup
}

// ListenBulk serves transfers at a TCP address of this process's network; port 0 = any free one. token is as of Listen.
func ListenBulk(at netip.AddrPort, token []byte) (*BulkListener, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("serve transfers at TCP %v: %w", at, err)
	}
	b := &BulkListener{listener: l, tag: tagOf(token), slots: make(chan struct{}, bulkConnections)}
	b.running.Go(b.serve)
	return b, nil
}

// Addr is where it listens.
func (b *BulkListener) Addr() netip.AddrPort { return b.listener.Addr().(*net.TCPAddr).AddrPort() }

// Close stops to listen, and waits for the transfers that are under way: at most for a second.
func (b *BulkListener) Close() error {
	err := b.listener.Close()
	b.running.Wait()
	return err
}

func (b *BulkListener) serve() {
	for {
		conn, err := b.listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(wake) // too many open files, perhaps: it is tried again
			continue
		}
		select {
		case b.slots <- struct{}{}:
			b.running.Go(func() {
				defer func() { <-b.slots }()
				b.transfer(conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

// transfer serves one connection. Whoever does not know the tag gets nothing, and nobody learns what went wrong.
func (b *BulkListener) transfer(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	var p packet
	if conn.SetDeadline(time.Now().Add(bulkGreeting)) != nil {
		return
	}
	if _, err := io.ReadFull(conn, p[:]); err != nil || !hmac.Equal(p[:tagSize], b.tag[:]) {
		return
	}
	if conn.SetDeadline(time.Now().Add(bulkLimit)) != nil {
		return
	}
	switch p[atKind] {
	case bulkDown:
		_ = send(conn) // the client knows what came
	case bulkUp:
		if bytes, took, err := receive(conn); err == nil {
			var result [16]byte
			binary.BigEndian.PutUint64(result[:], uint64(bytes))
			binary.BigEndian.PutUint64(result[8:], uint64(took))
			_, _ = conn.Write(result[:])
			_, _ = io.Copy(io.Discard, conn) // to close before its end would take the result back
		}
	}
}

// send sends zeros for as long as a receiver needs, however little gets through.
func send(conn *net.TCPConn) error {
	chunk := make([]byte, chunkSize)
	err := conn.SetWriteDeadline(time.Now().Add(bulkWarmup + bulkMeasured))
	for err == nil {
		_, err = conn.Write(chunk)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// receive takes what comes until the time that counts is over, and returns how much came in it, and how long it was.
func receive(conn *net.TCPConn) (bytes int64, took time.Duration, err error) {
	chunk := make([]byte, chunkSize)
	var first, from time.Time // the first byte; the beginning of the time that counts
	for {
		n, err := conn.Read(chunk)
		now := time.Now()
		switch {
		case n > 0 && first.IsZero():
			first = now
		case n > 0 && from.IsZero() && now.Sub(first) >= bulkWarmup:
			from = now
		case n > 0 && !from.IsZero():
			bytes, took = bytes+int64(n), now.Sub(from)
		}
		switch {
		case took >= bulkMeasured:
			return bytes, took, nil
		case errors.Is(err, io.EOF) && took >= bulkMeasured/2:
			return bytes, took, nil // the sender's clock began earlier
		case errors.Is(err, io.EOF):
			return 0, 0, errors.New("the peer has ended the transfer too early")
		case err != nil:
			return 0, 0, err
		}
	}
}

// measureBulk sends to a peer, and lets it send. The trip's time is that of a MiB, on average of both directions. Any
// error leaves it as it is.
func (s *Session) measureBulk(ctx context.Context, seconds *float64, at netip.AddrPort) error {
	var sum float64
	for _, kind := range []byte{bulkUp, bulkDown} {
		bytes, took, err := s.bulk(ctx, at, kind)
		if err != nil {
			return fmt.Errorf("TCP %v: %w", at, err)
		}
		sum += took.Seconds() / float64(bytes) * mebibyte
	}
	*seconds = sum / 2
	return nil
}

// bulk makes one transfer, and returns how many bytes the receiver has counted, at least one, and in what time.
func (s *Session) bulk(ctx context.Context, at netip.AddrPort, kind byte) (bytes int64, took time.Duration, err error) {
	dialer := net.Dialer{Timeout: wake}
	opened, err := dialer.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return 0, 0, err
	}
	conn := opened.(*net.TCPConn)
	defer func() { _ = conn.Close() }()
	var p packet
	p.make(tagOf(s.Token), 0)
	p[atKind] = kind
	err = conn.SetDeadline(time.Now().Add(bulkLimit))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if err == nil {
		_, err = conn.Write(p[:])
	}
	switch {
	case err != nil:
		return 0, 0, err
	case kind == bulkDown:
		bytes, took, err = receive(conn)
	default:
		var result [16]byte
		// The end of what was sent ends the count, if the receiver's clock began later. What is not sent by the end of the
		// transfer is dropped: it would fill the way of the next.
		if err = errors.Join(send(conn), conn.CloseWrite(), conn.SetLinger(0)); err == nil {
			_, err = io.ReadFull(conn, result[:])
		}
		bytes, took = int64(binary.BigEndian.Uint64(result[:])), time.Duration(binary.BigEndian.Uint64(result[8:]))
	}
	if err == nil && (bytes <= 0 || took < bulkMeasured/2 || took > bulkLimit) {
		err = fmt.Errorf("the peer says that %d bytes came in %v", bytes, took)
	}
	return bytes, took, err
}
