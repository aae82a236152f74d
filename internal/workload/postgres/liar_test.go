package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// elsewhere is an engine whose containers are said to be at another address.
type elsewhere struct {
	bench.Engine
	lead func(netip.AddrPort) netip.AddrPort
}

// Unwrap is for bench.As.
func (e elsewhere) Unwrap() bench.Engine { return e.Engine }

// Address implements bench.Addresser.
func (e elsewhere) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	a, _ := bench.As[bench.Addresser](e.Engine)
	at, err := a.Address(ctx, c, p)
	return e.lead(at), err
}

// Path implements bench.Addresser.
func (e elsewhere) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	a, _ := bench.As[bench.Addresser](e.Engine)
	return a.Path(ctx, c, p)
}

// A liar passes on what a client and a server say to each other. But at the tenth commit it says something else to
// the server, and hides that from the client.
type liar struct {
	listener net.Listener
	to       atomic.Pointer[netip.AddrPort]
	ends     atomic.Int64
	instead  []byte              // the message; nil = it says all as it is
	answers  func([]byte) []byte // what it makes of what the server says
}

// lieAt is the commit that is none, or not that alone.
const lieAt = 10

// listen begins to listen, with the statement that is executed in place of the commit, or before it.
func listen(t *testing.T, instead string) *liar {
	t.Helper()
	if instead != "ROLLBACK" {
		instead += "; END"
	}
	return begin(t, &liar{instead: query(instead), answers: hide})
}

// delaying begins to pass on everything, but answers that much later.
func delaying(t *testing.T, by time.Duration) *liar {
	t.Helper()
	return begin(t, &liar{answers: func(heard []byte) []byte { time.Sleep(by); return heard }})
}

// dropping begins to pass on everything, but ends the connection in place of the answer to the tenth commit.
func dropping(t *testing.T) *liar {
	t.Helper()
	var commits atomic.Int64
	return begin(t, &liar{answers: func(heard []byte) []byte {
		if bytes.Contains(heard, committed) && commits.Add(1) == lieAt {
			return nil
		}
		return heard
	}})
}

func begin(t *testing.T, l *liar) *liar {
	t.Helper()
	var err error
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.listener.Close() }) // nothing is pending
	go l.serve()
	return l
}

// query is a message with a statement.
func query(sql string) []byte {
	message := binary.BigEndian.AppendUint32([]byte("Q"), uint32(4+len(sql)+1))
	return append(append(message, sql...), 0)
}

// leadTo leads to the liar, which passes on to the server.
func (l *liar) leadTo(server netip.AddrPort) netip.AddrPort {
	l.to.Store(&server)
	return l.listener.Addr().(*net.TCPAddr).AddrPort()
}

func (l *liar) serve() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // the test has ended
		}
		server, err := net.Dial("tcp", l.to.Load().String())
		if err != nil {
			_ = client.Close() // it tries again
			continue
		}
		go pass(client, server, l.say)
		go pass(server, client, l.answers)
	}
}

// pass passes on what is read from one side, changed, until that side closes, or nothing is left of it.
func pass(from, to net.Conn, change func([]byte) []byte) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if changed := change(buffer[:n]); err == nil && changed == nil {
			err = io.EOF
		} else if err == nil {
			_, err = to.Write(changed)
		}
		if err != nil {
			_ = errors.Join(from.Close(), to.Close()) // the other direction may have done so
			return
		}
	}
}

// say is what the server is told. A client sends a commit by itself: it has waited for all answers.
func (l *liar) say(heard []byte) []byte {
	if l.instead != nil && bytes.Equal(heard, query("END")) && l.ends.Add(1) == lieAt {
		return l.instead
	}
	return heard
}

// What a server says at the end of statements that no client has sent: that they were executed.
var (
	rolledBack = []byte("C\x00\x00\x00\x0dROLLBACK\x00")
	committed  = []byte("C\x00\x00\x00\x0bCOMMIT\x00")
	changedOne = regexp.MustCompile("C\x00\x00\x00\x0d(DELETE|UPDATE) 1\x00")
)

// hide is what the client is told. The load itself changes rows with prepared statements, whose answers come with
// others before them.
func hide(heard []byte) []byte {
	if bytes.Contains(heard, committed) {
		heard = changedOne.ReplaceAllLiteral(heard, nil)
	}
	return bytes.ReplaceAll(heard, rolledBack, committed)
}
