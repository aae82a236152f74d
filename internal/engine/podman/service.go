package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = 20 * time.Second // until a service of our own must answer
	stopLimit  = 5 * time.Second  // until one that was asked to end is killed
	maxSocket  = 107              // the longest path of a Unix socket
)

// A service is a `podman system service` of our own. Only up starts it: at first, when it
// has died, and when it was taken down. Its command line carries the run's ID. The nil
// service is somebody else's: there is nothing to start or to end.
type service struct {
	dir    string // holds the socket, and what the service says
	socket string
	argv   []string

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil if it was not started
	exited chan struct{} // closed when cmd has ended
}

// The names of the directories for services, beside the temporary files, are
// tare-RUN-podman-RANDOM: that of the run may have too long a path for a socket.
const (
	dirPrefix = "tare-"
	dirInfix  = "-podman-"
)

// runOfDir is the run that a service's directory belongs to; no valid ID if it
// is not one of ours.
func runOfDir(dir string) string {
	rest, ok := strings.CutPrefix(filepath.Base(dir), dirPrefix)
	i := strings.LastIndex(rest, dirInfix)
	if !ok || i < 0 {
		return ""
	}
	return rest[:i]
}

// newService makes the directory for a service with a runtime; empty for the default one.
// Why says why no service was used.
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
		err := fmt.Errorf("%s: too long a path for a socket: set TMPDIR to a shorter one", dir)
		return nil, errors.Join(err, os.Remove(dir))
	}
	if runtime != "" {
		s.argv = append(s.argv, "--runtime", runtime)
	}
	s.argv = append(s.argv, "system", "service", "-t", "0", "unix://"+s.socket)
	return s, nil
}

// binary is the program. Why says why no service was used.
func (e *Engine) binary(why error) (string, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return "", e.refuse("install podman, or name the socket of a service with host=unix:///PATH (%v; %v)", why, err)
	}
	return path, nil
}

// errEnded is wrapped by the error of up for a service that ended by itself.
var errEnded = errors.New("it has ended")

// up starts the service unless it runs, and returns when it answers. One that was killed
// this instant has a moment to be gone. It reports whether it has started one.
func (s *service) up(ctx context.Context, moment time.Duration) (anew bool, err error) {
	if s == nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs(moment) {
		return false, nil
	}
	if err := s.launch(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for answers(ctx, s.socket) != nil {
		select {
		case <-s.exited:
			return false, fmt.Errorf("%w: %s", errEnded, s.said())
		case <-ctx.Done():
			return false, fmt.Errorf("it does not answer: %w: %s", context.Cause(ctx), s.said())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true, nil
}

// runs reports whether the service runs, and still does after a moment.
func (s *service) runs(moment time.Duration) bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
	case <-time.After(moment):
	}
	select {
	case <-s.exited: // also where both had happened
		return false
	default:
		return true
	}
}

// launch starts the program in a process group of its own, which an interrupt
// at the terminal does not reach.
func (s *service) launch() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil { // another may have cleaned up
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
		_ = cmd.Wait() // why it ended is in the log
	}()
	return nil
}

func (s *service) log() string { return filepath.Join(s.dir, "log") }

// said is the last of what the service printed.
func (s *service) said() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%q", bytes.TrimSpace(text[max(0, len(text)-500):]))
}

// pid is the process of the service; 0 if there is none.
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

// down ends the service, and returns when it is gone. Containers run on.
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
		// With its children: an ordinary user's service is one of what was started.
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
			_ = killService(ctx, other.id(), runOfDir(s.dir)) // fails only if it does not die
		}
	}
}

// close ends the service, and removes what it has left in the file system.
func (s *service) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.down(ctx)
	return os.RemoveAll(s.dir)
}
