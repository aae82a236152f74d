// Package builder runs the commands with which the users of an engine build images, and reads the
// progress that these print.
//
// A command has no other interface for its steps than this progress. The times of docker's classic
// builder and of podman are those at which the lines came, on the clock of the caller, because these
// builders do one step after the other. BuildKit does steps side by side and prints late; its times are
// those that it tells itself.
package builder

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// maxOutput is how much a command may print, in bytes: reading it takes CPU time from the build.
const maxOutput = 64 << 20

// errTooMuch means that a command has printed more than maxOutput.
var errTooMuch = fmt.Errorf("it printed more than %d MiB: let its steps print less", maxOutput>>20)

// stopGrace is how long a command may take to end after Stop, before it is killed.
const stopGrace = 3 * time.Second

// A Format is how a builder tells its progress.
type Format int

// The formats.
const (
	Classic  Format = iota // "Step 1/3 : FROM x"
	Podman                 // "STEP 1/3: FROM x"
	BuildKit               // "#5 [1/3] FROM x"
	JSON                   // objects of BuildKit's status
)

// A Command builds an image.
type Command struct {
	Argv   []string
	Env    []string
	Format Format
	// Stop is the signal that ends the command with all that it does. It is also sent if tare dies.
	Stop syscall.Signal
}

// Run runs the command and returns the steps that its progress told.
func (c Command) Run(ctx context.Context, now func() time.Duration) ([]bench.BuildStep, error) {
	runtime.LockOSThread() // the command gets Pdeathsig when the thread that started it ends
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &output{progress: c.reader(now()), now: now, left: maxOutput, full: func() { cancel(errTooMuch) }}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = "/", c.Env
	stdout, stderr := &stream{to: out, most: c.longest()}, &stream{to: out, stderr: true, most: c.longest()}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: c.Stop}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, c.Stop) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	end := now()
	if cmd.Process != nil && err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if the whole group has ended
	}
	stdout.flush()
	stderr.flush()
	steps := out.progress.finish(end)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // others hold its output, which is whole
		return steps, nil
	case ctx.Err() != nil:
		return steps, out.progress.failure(context.Cause(ctx))
	case errors.As(err, new(*exec.ExitError)):
		return steps, out.progress.failure(err)
	}
	return steps, err
}

// A progress reads what a builder prints.
type progress interface {
	// line reads one line that came at that time.
	line(text string, at time.Duration, stderr bool)
	// finish is called once, after the last line, and returns the steps.
	finish(at time.Duration) []bench.BuildStep
	// failure says which step failed, why, and what it printed last. err is the end of the command.
	failure(err error) error
}

func (c Command) reader(begin time.Duration) progress {
	switch c.Format {
	case BuildKit:
		return &kit{}
	case JSON:
		return &status{kit: kit{exact: true}}
	case Podman:
		return &sequence{begin: begin, step: podmanStep, cached: "--> Using cache", export: podmanCommit, errors: "Error:"}
	default:
		return &sequence{begin: begin, step: classicStep, cached: " ---> Using cache", end: "Successfully built ", sent: true}
	}
}

// longest is how much of a line is read, in bytes.
func (c Command) longest() int {
	if c.Format == JSON { // a line can be a whole object
		return maxObject
	}
	return 16 << 10
}

// An output is what a command prints to its two streams.
type output struct {
	mu       sync.Mutex
	progress progress
	now      func() time.Duration
	left     int
	full     func()
}

// A stream splits one of the streams into lines.
type stream struct {
	to      *output
	stderr  bool
	most    int    // how much of a line is read, in bytes
	partial []byte // a line that has not ended
}

func (s *stream) Write(p []byte) (int, error) {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	if s.to.left -= len(p); s.to.left < 0 {
		s.to.full()
		return len(p), nil
	}
	at, n := s.to.now(), len(p)
	for len(p) > 0 {
		end := 0
		for end < len(p) && p[end] != '\n' && p[end] != '\r' {
			end++
		}
		s.partial = append(s.partial, p[:min(end, s.most-len(s.partial))]...)
		if end == len(p) {
			break
		}
		s.emit(at)
		p = p[end+1:]
	}
	return n, nil
}

// flush reads the last line, if it has no end.
func (s *stream) flush() {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.emit(s.to.now())
}

func (s *stream) emit(at time.Duration) {
	if len(s.partial) > 0 {
		s.to.progress.line(strings.ToValidUTF8(string(s.partial), "\uFFFD"), at, s.stderr)
	}
	s.partial = s.partial[:0]
}
