package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxStreams limits the concurrent operations of one client.
const maxStreams = 250

// Stdio returns the process's standard input and output as files whose reads and writes can be given
// deadlines, if they are pipes or sockets.
func Stdio() (in, out *os.File) {
	file := func(fd uintptr, name string) *os.File {
		_ = syscall.SetNonblock(int(fd), true) // a file that cannot block stays as it is
		return os.NewFile(fd, name)
	}
	return file(0, "stdin"), file(1, "stdout")
}

// Serve greets over two files, and serves operations to who is at their other ends. It returns when
// that side or ctx has ended. Handlers may still run then; their contexts have ended.
func Serve(ctx context.Context, in, out *os.File, g Greeting, h http.Handler) error {
	g.Protocol = protocol
	text, err := json.Marshal(g)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s%s\n", greetLine, text)
	}
	if err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	serveOne(ctx, &duplex{reader: in, in: in, out: out}, h, keepAliveTime)
	return nil
}

// serveOne serves one connection. What alive is, keepAliveTime says.
func serveOne(ctx context.Context, conn net.Conn, h http.Handler, alive time.Duration) {
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	one := &http.Server{
		Handler:        h,
		Protocols:      &protocols,
		MaxHeaderBytes: 8 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       log.New(io.Discard, "", 0), // the handler reports errors
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      alive, PingTimeout: alive, WriteByteTimeout: writeTimeout,
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(gone)
			}
		},
	}
	l := &singleConnListener{conn: make(chan net.Conn, 1), closed: make(chan struct{}), addr: conn.LocalAddr()}
	l.conn <- conn
	go func() { _ = one.Serve(l) }() // ends with Close
	select {
	case <-gone:
	case <-ctx.Done():
	}
	_ = one.Close() // the connection may be closed already
}

// A singleConnListener is a net.Listener that accepts one connection.
type singleConnListener struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

// Accept implements net.Listener.
func (l *singleConnListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *singleConnListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *singleConnListener) Addr() net.Addr { return l.addr }

// Read reads the JSON of a request, of at most so many bytes. Both sides have the same version, so a
// field that is not known is an error.
func Read(w http.ResponseWriter, r *http.Request, limit int64, ask any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	if err := d.Decode(ask); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("not a request: %w", err)
	}
	return nil
}

// Answer sends the result of an operation. It ignores errors of sending.
func Answer(w http.ResponseWriter, name string, out any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(failureOf(fmt.Errorf("%s: %w", name, err)))
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}
