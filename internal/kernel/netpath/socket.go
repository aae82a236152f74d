package netpath

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Socket is the whole path of a client by a Unix socket: no packet passes any network.
const Socket = "unix socket"

// ToSocket is the path to a Unix socket of this host, at which the container whose first process is
// first listens. If the kernel says that another process listens there, the error wraps
// bench.ErrMismatch. If it cannot be asked, because first is 0 or the listener is not visible from
// here, the path is Unknown.
func ToSocket(ctx context.Context, socket string, first int) (path []string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	listener := proc.Peer(conn)
	if listener == 0 || first == 0 {
		return []string{Unknown}, nil
	}
	inside, err := proc.Descendants("/", first)
	if err != nil {
		return nil, err
	}
	if listener != first && !slices.Contains(inside, listener) {
		return nil, fmt.Errorf("%w: socket %s: process %d listens there, which is not of the container (process %d)",
			bench.ErrMismatch, socket, listener, first)
	}
	return []string{Socket}, nil
}
