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

// errNoService is wrapped by the error of find where no service answers on the
// user's usual socket, so that one may be started.
var errNoService = errors.New("no service answers")

// host is the service that the user names; empty if it is for us to find one.
func (e *Engine) host() string {
	if e.cfg.Host != "" {
		return e.cfg.Host
	}
	return os.Getenv("CONTAINER_HOST")
}

// find returns the socket on which a service answers already.
func (e *Engine) find(ctx context.Context) (string, error) {
	socket, host := usualSocket(), e.host()
	if host != "" {
		path, ok := strings.CutPrefix(host, "unix://")
		if !ok || !filepath.IsAbs(path) {
			return "", e.refuse("host %q: use unix:///PATH of a Podman service", host)
		}
		socket = path
	}
	err := answers(ctx, socket)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
	switch {
	case err == nil:
		return socket, nil
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w: %s: no permission for %s: run tare as the user whose service it is: %w", bench.ErrUnsupported, e.cfg.Name, socket, err)
	case absent && host == "":
		return "", fmt.Errorf("%w at %s", errNoService, socket)
	case absent:
		return "", fmt.Errorf("%w: %s does not answer at %s: start it with `podman system service -t 0 %s`: %w", bench.ErrUnsupported, e.cfg.Name, socket, host, err)
	}
	return "", fmt.Errorf("%s: connect to %s: %w", e.cfg.Name, socket, bench.Because(ctx, err))
}

// answers reports an error if nobody listens on a socket.
func answers(ctx context.Context, socket string) error {
	conn, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// usualSocket is where the service manager puts the socket.
func usualSocket() string {
	if os.Geteuid() == 0 {
		return "/run/podman/podman.sock"
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join("/run/user", strconv.Itoa(os.Geteuid()))
	}
	return filepath.Join(dir, "podman", "podman.sock")
}
