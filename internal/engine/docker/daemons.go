package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

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
