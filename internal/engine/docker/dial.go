package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"sync/atomic"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// maxResponse limits what the engine may send after one request, in bytes. Answers have a few KiB; a
// list of thousands of containers has some MiB.
const maxResponse = 64 << 20

// connect connects to the engine.
func (e *Engine) connect(ctx context.Context) (net.Conn, error) {
	at, err := client.ParseHostURL(e.client.DaemonHost())
	if err != nil {
		return nil, err
	}
	network := "tcp" // for http and https too
	if at.Scheme == "unix" {
		network = at.Scheme
	}
	return (&net.Dialer{}).DialContext(ctx, network, at.Host)
}

// daemon is the engine's process; 0 if it is not visible from here.
func (e *Engine) daemon(ctx context.Context) int {
	conn, err := e.connect(ctx)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }() // nothing was written
	return proc.Peer(conn)
}

// dial connects to the engine. It ignores the address that the client library passes.
func (e *Engine) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := e.connect(ctx)
	if err != nil || os.Getenv(client.EnvOverrideCertPath) != "" {
		return conn, err // encrypted requests cannot be told apart here
	}
	c := &limitedConn{Conn: conn}
	c.left.Store(maxResponse)
	return c, nil
}

// A limitedConn connection fails once an answer is too long, so that no engine can
// fill the memory. The client library decodes answers of any length, and gives
// its hooks no access to their bodies.
type limitedConn struct {
	net.Conn
	left atomic.Int64 // bytes that may still come before the next request; used by a reader and a writer
}

// Write notes which answer is requested. Images and container output may have any length, because
// tare reads them in pieces.
func (c *limitedConn) Write(p []byte) (int, error) {
	switch head, _, _ := bytes.Cut(p, []byte("\r\n\r\n")); {
	case bytes.Contains(head, []byte("/images/get?")), bytes.Contains(head, []byte("\r\nUpgrade: ")):
		c.left.Store(math.MaxInt64)
	default:
		c.left.Store(maxResponse)
	}
	return c.Conn.Write(p)
}

func (c *limitedConn) Read(p []byte) (int, error) {
	left := c.left.Load()
	if left <= 0 {
		return 0, fmt.Errorf("the engine's answer is longer than %d MiB", maxResponse>>20)
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), left)])
	c.left.Add(-int64(n))
	return n, err
}

// containerdSocket is the default address of a containerd that the engine has not started itself.
const containerdSocket = "/run/containerd/containerd.sock"

// containerd returns the containerd that a daemon uses, if it is a separate process: a child with
// that name, or the process that listens at the address. Newer daemons report the address; for
// older ones it comes from their command line.
func containerd(ctx context.Context, daemon int, address string) ([]int, error) {
	all, err := proc.All("/")
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.Parent == daemon && p.State != 'Z' && proc.Name(p.PID) == "containerd" {
			return []int{p.PID}, nil
		}
	}
	for _, candidate := range []string{address, proc.ArgAfter(proc.Args(daemon), "--containerd"), containerdSocket} {
		if candidate != "" {
			return listener(ctx, daemon, candidate)
		}
	}
	return nil, nil
}

// listener returns the process that listens at an address; none if there is none and the daemon has
// no separate containerd.
func listener(ctx context.Context, daemon int, address string) ([]int, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", address)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	pid := proc.Peer(conn)
	if pid == 0 {
		return nil, fmt.Errorf("the process that listens at %s is not visible from here", address)
	}
	if pid == daemon {
		return nil, nil
	}
	return []int{pid}, nil
}
