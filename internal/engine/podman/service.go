package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
)

const (
	startLimit = 20 * time.Second // within which a service that tare starts must answer
	stopLimit  = 5 * time.Second  // after which a service that was asked to end is killed
	maxSocket  = 107              // the longest path of a Unix socket
)

// A service is a `podman system service` that tare starts. Only ensureRunning starts it:
// the first time, after it has died, and after down. Its command line carries the run's ID. A nil
// service stands for one that tare did not start: its methods do nothing.
type service struct {
	dir    string // holds the socket and the service's log
	socket string
	argv   []string

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil before the start
	exited chan struct{} // closed when cmd has ended
}

// The directories of services are $TMPDIR/tare-RUN-podman-RANDOM. They are not in the run's
// directory, whose path may be too long for a socket.
const (
	dirPrefix = "tare-"
	dirInfix  = "-podman-"
)

// runOfDir is the ID of the run that a service's directory belongs to; not a valid ID if the
// directory is not a service's.
func runOfDir(dir string) string {
	rest, ok := strings.CutPrefix(filepath.Base(dir), dirPrefix)
	i := strings.LastIndex(rest, dirInfix)
	if !ok || i < 0 {
		return ""
	}
	return rest[:i]
}

// newService makes the directory for a service with a runtime; an empty runtime is the default. why
// is the reason that no existing service was used.
func (e *Engine) newService(runtime string, why error) (*service, error) {
	binary, err := e.binary(why)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", dirPrefix+e.cfg.Run+dirInfix)
	if err != nil {
		return nil, err
	}
	s := &service{dir: dir, socket: filepath.Join(dir, "s"), argv: []string{binary}}
	if len(s.socket) > maxSocket {
		err := fmt.Errorf("%s: this path is too long for a socket: set TMPDIR to a shorter directory", dir)
		return nil, errors.Join(err, os.Remove(dir))
	}
	if runtime != "" {
		s.argv = append(s.argv, "--runtime", runtime)
	}
	s.argv = append(s.argv, "system", "service", "-t", "0", "unix://"+s.socket)
	return s, nil
}

// binary returns the path of the program podman. why is the reason that no existing service was
// used.
func (e *Engine) binary(why error) (string, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return "", e.unsupported("install podman, or name the socket of a service with host=unix:///PATH (%v; %v)", why, err)
	}
	return path, nil
}

// errEnded means that a service ended by itself. ensureRunning wraps it.
var errEnded = errors.New("the service has ended")

// ensureRunning starts the service unless it runs, and returns when it answers. A service that was just killed
// gets a moment to disappear.
func (s *service) ensureRunning(ctx context.Context, moment time.Duration) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs(moment) {
		return nil
	}
	if err := s.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for answers(ctx, s.socket) != nil {
		select {
		case <-s.exited:
			return fmt.Errorf("%w: %s", errEnded, s.lastOutput())
		case <-ctx.Done():
			return fmt.Errorf("the service does not answer: %w: %s", context.Cause(ctx), s.lastOutput())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// runs reports whether the service runs and still runs after a moment.
func (s *service) runs(moment time.Duration) bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
	case <-time.After(moment):
	}
	select {
	case <-s.exited: // also if both happened
		return false
	default:
		return true
	}
}

// launch starts the program in a process group of its own, so that Ctrl-C at the terminal does not
// reach it.
func (s *service) launch() error {
	if err := makeOwn(s.dir); err != nil { // another tare may have cleaned up
		return err
	}
	log, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the service has its own
	cmd, exited := exec.Command(s.argv[0], s.argv[1:]...), make(chan struct{})
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the log says why it ended
	}()
	return nil
}

// makeOwn makes a directory that only this user can enter. One that exists must be this user's:
// another user could make it in a shared directory, and put a socket or a link there.
func makeOwn(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user: set TMPDIR to a directory that others cannot write to", dir)
	}
	return nil
}

func (s *service) log() string { return filepath.Join(s.dir, "log") }

// lastOutput is the last part of what the service printed.
func (s *service) lastOutput() string {
	const most = 500 // bytes
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%q", bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// pid is the service's process; 0 if there is none.
func (s *service) pid() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.runs(0) {
		return 0
	}
	return s.cmd.Process.Pid
}

// down ends the service and returns when its process has ended. Its containers keep running.
func (s *service) down(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	limited, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-s.exited:
	case <-limited.Done():
		// The whole group: an ordinary user's service is a child of the started process.
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // fails only if they have ended
		<-s.exited
	}
	s.cmd = nil
	s.endOthers(ctx)
}

// endOthers ends what the program has started in its own place: an ordinary user's service
// is a second process, which stays where the first one is ended before it passes signals on.
func (s *service) endOthers(ctx context.Context) {
	all, err := servicesOf()
	if err != nil {
		return // 'tare clean' looks for it, too
	}
	for _, other := range all {
		if other.dir == s.dir {
			_ = killService(ctx, owned.ProcessID(other.Process), runOfDir(s.dir)) // fails only if it does not die
		}
	}
}

// close ends the service and removes its files.
func (s *service) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.down(ctx)
	return os.RemoveAll(s.dir)
}

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
