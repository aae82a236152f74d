package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// A SocketDir is a directory of this host in which a server makes its Unix socket, for a cell whose
// Spec.Reach is bench.ReachSocket. Inside it has the same path. A workload that can use one is a
// bench.Socketed.
type SocketDir struct{ Path string }

// NewSocketDir makes a directory for a socket below dir, the run's own. Every user may make files in
// it. A path of the directory and name, the longest that the socket may have, must fit into a
// socket's address; else the error wraps bench.ErrUnsupported.
func NewSocketDir(dir, name string) (d SocketDir, err error) {
	if d.Path, err = os.MkdirTemp(dir, "s"); err != nil {
		return SocketDir{}, err
	}
	if socket := filepath.Join(d.Path, name); len(socket) > bench.MaxSocketPath {
		err = fmt.Errorf("%w: reach socket: the path %s has %d bytes, and a Unix socket may have %d: use a shorter --state",
			bench.ErrUnsupported, socket, len(socket), bench.MaxSocketPath)
	}
	if err == nil {
		err = os.Chmod(d.Path, 0o777|os.ModeSticky)
	}
	if err != nil {
		return SocketDir{}, errors.Join(err, d.Remove())
	}
	return d, nil
}

// Mounts makes the directory visible in a container. A plain process needs none.
func (d SocketDir) Mounts(e bench.Engine) []bench.Mount {
	if _, plain := bench.As[bench.DataKeeper](e); plain {
		return nil
	}
	return []bench.Mount{{Type: "bind", Source: d.Path, Target: d.Path}}
}

// Clear removes what a server has left in the directory, so that the next one finds it empty.
func (d SocketDir) Clear() error {
	entries, err := os.ReadDir(d.Path)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.Path, e.Name())))
	}
	return err
}

// Remove removes the directory.
func (d SocketDir) Remove() error { return os.RemoveAll(d.Path) }

// ReadSocketPath proves from the kernel that the process inside listens at a socket of this host, for
// Applied: the path is then netpath.Socket. It connects once, and closes the connection. If another
// process listens there, the error wraps bench.ErrMismatch. Call it when nothing is measured.
func (p *Process) ReadSocketPath(ctx context.Context, c bench.Clock, socket string) error {
	first := 0
	if p.find(ctx) {
		first = p.first.PID
	}
	_, err := c.Step("address", func() error {
		path, err := netpath.ToSocket(ctx, socket, first)
		if err == nil {
			p.SetPath(path)
		}
		return err
	})
	return p.named(err)
}
