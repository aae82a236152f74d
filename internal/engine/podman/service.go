package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 20 * time.Second // until a service of our own must answer
	stopLimit  = 5 * time.Second  // until one that was asked to end is killed
	maxSocket  = 107              // the longest path of a Unix socket
)

// A service is a `podman system service` of our own, which may be started and
// stopped several times. Its command line carries the run's ID.
type service struct {
	dir    string // holds the socket, and what the service says
	socket string
	argv   []string
	cmd    *exec.Cmd     // nil if it was not started
	exited chan struct{} // closed when cmd has ended
}

// binary is the program. Why says why no service was used.
func (e *Engine) binary(why error) (string, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return "", e.refuse("install podman, or name the socket of a service with host=unix:///PATH (%v; %v)", why, err)
	}
	return path, nil
}

// serviceDir makes the directory for a service: in the run's, or beside the
// temporary files where that is not there or its path is too long.
func (e *Engine) serviceDir(runtime string) (string, error) {
	name := serviceName + e.cfg.Name
	if runtime != "" {
		name += "." + runtime // no instance has a dot in its name
	}
	dir := filepath.Join(e.cfg.Dir, name)
	if filepath.IsAbs(dir) && len(socketIn(dir)) <= maxSocket {
		err := os.Mkdir(dir, 0o700)
		if !errors.Is(err, os.ErrNotExist) {
			return dir, ignoreExist(err)
		}
	}
	dir, err := os.MkdirTemp("", temporaryPrefix+e.cfg.Run+temporaryInfix)
	if err == nil && len(socketIn(dir)) > maxSocket {
		return "", errors.Join(fmt.Errorf("%s: too long a path for a socket: set TMPDIR to a shorter one", dir), os.Remove(dir))
	}
	return dir, err
}

func ignoreExist(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil // of the same run, before a crash
	}
	return err
}

func socketIn(dir string) string { return filepath.Join(dir, "s") }

func newService(binary, dir, runtime string) *service {
	s := &service{dir: dir, socket: socketIn(dir), argv: []string{binary}}
	if runtime != "" {
		s.argv = append(s.argv, "--runtime", runtime)
	}
	s.argv = append(s.argv, "system", "service", "-t", "0", "unix://"+s.socket)
	return s
}

// start starts the service and returns when it answers.
func (s *service) start(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for answers(ctx, s.socket) != nil {
		select {
		case <-s.exited:
			return fmt.Errorf("%w: %s", errEnded, s.said())
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w: %s", context.Cause(ctx), s.said())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// errEnded is wrapped by the error of start for a service that ended by itself.
var errEnded = errors.New("it has ended")

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
	s.cmd, s.exited = exec.Command(s.argv[0], s.argv[1:]...), make(chan struct{})
	s.cmd.Dir = "/"
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	go func(cmd *exec.Cmd, exited chan<- struct{}) {
		defer close(exited)
		_ = cmd.Wait() // why it ended is in the log
	}(s.cmd, s.exited)
	return nil
}

func (s *service) log() string { return filepath.Join(s.dir, "log") }

// said is the last of what the service printed.
func (s *service) said() string {
	const most = 500
	f, err := os.Open(s.log())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // else it is the beginning that is shown
	}
	text, _ := io.ReadAll(io.LimitReader(f, most)) // a message without is better than none
	return fmt.Sprintf("%q", bytes.TrimSpace(text))
}

// dead reports whether the service has ended, or does so within a time.
func (s *service) dead(within time.Duration) bool {
	if s.cmd == nil {
		return true
	}
	select {
	case <-s.exited:
		return true
	case <-time.After(within):
		return false
	}
}

// stop ends the service, and returns when it is gone. Containers run on.
func (s *service) stop(ctx context.Context) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	select {
	case <-s.exited:
	case <-ctx.Done():
		// With its children: an ordinary user's service is one of what was started.
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // fails only if they have ended
		<-s.exited
	}
	s.cmd = nil
}

// remove removes what the service left in the file system.
func (s *service) remove() error { return os.RemoveAll(s.dir) }

// The names of the directories for services: podman-NAME or podman-NAME.RUNTIME
// in the run's, or tare-RUN-podman-RANDOM beside the temporary files.
const (
	serviceName     = "podman-"
	temporaryPrefix = "tare-"
	temporaryInfix  = "-podman-"
)

// runOfDir is the run that a service's directory belongs to; no valid ID if it
// is not one of ours.
func runOfDir(dir string) string {
	base := filepath.Base(dir)
	if strings.HasPrefix(base, serviceName) {
		return filepath.Base(filepath.Dir(dir))
	}
	rest, ok := strings.CutPrefix(base, temporaryPrefix)
	i := strings.LastIndex(rest, temporaryInfix)
	if !ok || i < 0 {
		return ""
	}
	return rest[:i]
}
