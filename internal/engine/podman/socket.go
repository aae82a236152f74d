package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
)

// errNoService means that no service answers on the user's usual socket, so tare may start one.
// find wraps it.
var errNoService = errors.New("no service answers")

// host is the service that the user names; empty if tare is to find or start one.
func (e *Engine) host() string {
	if e.cfg.Host != "" {
		return e.cfg.Host
	}
	return os.Getenv("CONTAINER_HOST")
}

// find returns the socket of a service that already answers.
func (e *Engine) find(ctx context.Context) (string, error) {
	socket, host := defaultSocket(), e.host()
	if host != "" {
		path, ok := strings.CutPrefix(host, "unix://")
		if !ok || !filepath.IsAbs(path) {
			return "", e.unsupported("host %q: use unix:///PATH, the socket of a Podman service", host)
		}
		socket = path
	}
	err := answers(ctx, socket)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
	switch {
	case err == nil:
		return socket, nil
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w: %s: no permission to use %s: run tare as the user who owns this service: %w",
			bench.ErrUnsupported, e.cfg.Name, socket, err)
	case absent && host == "":
		return "", fmt.Errorf("%w at %s", errNoService, socket)
	case absent:
		return "", fmt.Errorf("%w: %s does not answer at %s: start it with `podman system service -t 0 %s`: %w",
			bench.ErrUnsupported, e.cfg.Name, socket, host, err)
	}
	return "", fmt.Errorf("%s: connect to %s: %w", e.cfg.Name, socket, bench.Because(ctx, err))
}

// answers returns an error if no process listens on a socket.
func answers(ctx context.Context, socket string) error {
	conn, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// defaultSocket is where systemd puts the socket.
func defaultSocket() string {
	if os.Geteuid() == 0 {
		return "/run/podman/podman.sock"
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join("/run/user", strconv.Itoa(os.Geteuid()))
	}
	return filepath.Join(dir, "podman", "podman.sock")
}
