package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/plugins"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// client is the client library's client.
type client = containerd.Client

// connectLimit limits how long containerd may take to accept a connection and to describe itself.
const connectLimit = 10 * time.Second

// defaultAddress is where containerd's own tools look for it.
func defaultAddress() string {
	if a := os.Getenv("CONTAINERD_ADDRESS"); a != "" {
		return strings.TrimPrefix(a, "unix://")
	}
	return defaults.DefaultAddress
}

// A server is the containerd at the other end of a connection.
type server struct {
	client       *client
	daemon       daemon
	groups       *cgroup.Hierarchy
	snapshotters []string // the working ones
}

// connect connects to containerd and reads its version and plugins. It changes nothing.
func (e *Engine) connect(ctx context.Context) (*server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectLimit, errors.New("it does not answer"))
	defer cancel()
	d, err := e.findDaemon(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := cgroup.Detect("/")
	if err != nil {
		return nil, fmt.Errorf("%w: %s needs control groups: %w", bench.ErrUnsupported, e.cfg.Name, err)
	}
	c, err := dial(e.cfg.Address)
	if err != nil {
		return nil, e.failed("connect", err)
	}
	s := &server{client: c, daemon: d, groups: groups}
	if s.snapshotters, err = snapshotters(ctx, c); err != nil {
		return nil, errors.Join(e.failed("list plugins", bench.Because(ctx, err)), c.Close())
	}
	return s, nil
}

// dial returns a client whose calls fail at once if no process listens. The library's own dialer
// keeps trying while the socket does not exist.
func dial(address string) (*client, error) {
	return containerd.New(address,
		containerd.WithDefaultNamespace(namespace),
		containerd.WithDefaultRuntime(plugins.RuntimeRuncV2),
		containerd.WithTimeout(connectLimit),
		containerd.WithDialOpts([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()), // a Unix socket
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
				MinConnectTimeout: connectLimit,
			}),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", address)
			}),
		}),
	)
}

// findDaemon finds the process that listens, and distinguishes a missing containerd from one that tare
// has no permission to use.
func (e *Engine) findDaemon(ctx context.Context) (daemon, error) {
	unsupported := func(err error, format string, args ...any) (daemon, error) {
		return daemon{}, fmt.Errorf("%w: %s %s: %w", bench.ErrUnsupported, e.cfg.Name, fmt.Sprintf(format, args...), err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", e.cfg.Address)
	if err != nil {
		return daemon{}, e.run.Unreachable(bench.Because(ctx, err), e.cfg.Address, "run tare with sudo",
			"install it, and start it with `systemctl start containerd` or `containerd`")
	}
	defer func() { _ = conn.Close() }() // nothing was written
	if os.Geteuid() != 0 {
		return unsupported(fs.ErrPermission, "makes mounts and control groups only for root: run tare with sudo")
	}
	d := daemon{pid: proc.Peer(conn)}
	if !readback.SameNumbers(d.pid) {
		return unsupported(errors.New("the processes of its containers are not visible from here"),
			"at %s runs in another PID namespace: run tare in that namespace", e.cfg.Address)
	}
	return d, nil
}

// snapshotters lists the snapshotters that work.
func snapshotters(ctx context.Context, c *client) ([]string, error) {
	answer, err := c.IntrospectionService().Plugins(ctx, "type=="+plugins.SnapshotPlugin.String())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range answer.Plugins {
		if p.InitErr == nil {
			names = append(names, p.ID)
		}
	}
	slices.Sort(names)
	return names, nil
}

// A daemon is the process of a containerd.
type daemon struct{ pid int }

func (d daemon) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(d.pid), name)
}

// lookPath returns the path of a program as the daemon and its shims find it: in the daemon's PATH, or
// in the daemon's directory.
func (d daemon) lookPath(program string) (string, error) {
	if filepath.IsAbs(program) {
		return exec.LookPath(program)
	}
	dirs := filepath.SplitList(d.path())
	if self, err := os.Readlink(d.file("exe")); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	for _, dir := range dirs {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("containerd cannot find %s", program)
}

// path is the daemon's PATH; tare's own PATH if the daemon's cannot be read.
func (d daemon) path() string {
	text, err := proc.ReadFile(d.file("environ"), 1<<20)
	if err != nil {
		return os.Getenv("PATH")
	}
	for kv := range bytes.SplitSeq(text, []byte{0}) {
		if path, ok := bytes.CutPrefix(kv, []byte("PATH=")); ok {
			return string(path)
		}
	}
	return ""
}
