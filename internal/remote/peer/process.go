package peer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits on what is read before the program has greeted, in bytes.
const (
	maxLine  = 4 << 10
	maxNoise = 64 << 10
)

// A process is ssh, with what runs at its other end.
type process struct {
	cmd    *exec.Cmd
	in     *os.File      // its standard input
	out    *os.File      // its standard output
	buffer *bufio.Reader // of out
	said   *tail
	doing  string        // what was done last, once the machine has answered; empty = it has not
	ended  chan struct{} // closed when the process has ended
	killed sync.Once
}

// startProcess starts a program in a process group of its own: what a terminal sends to tare, such as
// Ctrl-C, must not end the connection before tare has used it for the last time.
func startProcess(path string, args []string, said func(string)) (*process, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	p := &process{
		cmd: exec.Command(path, args...), in: in, out: out, buffer: bufio.NewReaderSize(out, maxLine),
		said: &tail{said: said}, ended: make(chan struct{}),
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // another process may keep stderr open
	err = p.cmd.Start()
	_ = errors.Join(stdin.Close(), stdout.Close()) // they belong to the process
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		_ = p.cmd.Wait() // its state is in p.cmd
		close(p.ended)
	}()
	return p, nil
}

// kill ends the process at once, and with it everything that waits for it.
func (p *process) kill() {
	p.killed.Do(func() {
		_ = errors.Join(p.in.Close(), p.cmd.Process.Kill()) // it may have ended
	})
}

// nextLine reads lines until one begins with one of the words, and returns it in two parts.
func (p *process) nextLine(words ...string) (word, rest string, err error) {
	for read := 0; read < maxNoise; {
		line, err := p.buffer.ReadSlice('\n')
		read += len(line)
		for _, word := range words {
			if rest, ok := bytes.CutPrefix(line, []byte(word)); ok && err == nil {
				return word, strings.TrimRight(string(rest), "\r\n"), nil
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", "", err
		}
	}
	return "", "", errors.New("it says something else than tare does")
}

// send gives the script a program, behind its size.
func (p *process) send(offer program) error {
	if _, err := fmt.Fprintln(p.in, offer.size); err != nil {
		return err
	}
	_, err := io.Copy(p.in, io.NewSectionReader(offer.file, 0, offer.size))
	return err
}

// parseGreeting reads what a program greets with.
func parseGreeting(t Target, line string) (g Greeting, err error) {
	if err := json.Unmarshal([]byte(line), &g); err != nil {
		return g, fmt.Errorf("not a greeting of tare: %w", err)
	}
	if g.Protocol != protocol || g.Version != t.Version {
		return g, &Error{
			Host: t.Host, Kind: OtherVersion,
			Text: fmt.Sprintf("the versions of tare differ: %s here, %.80q there", t.Version, g.Version),
		}
	}
	if t.Role != "" && g.Role != t.Role {
		return g, &Error{
			Host: t.Host, Kind: OtherRole,
			Text: fmt.Sprintf("its login runs 'tare agent %.20s', not 'tare agent %s'", g.Role, t.Role),
		}
	}
	return g, nil
}

// failure ends the process, and returns why nothing came of it.
func (p *process) failure(ctx context.Context, t Target, err error) error {
	out := &Error{Host: t.Host, err: err}
	if ctx.Err() == nil {
		_ = p.in.Close()       // so that what runs there ends by itself
		p.waitFor(time.Second) // for its last words
	}
	exited := -1
	select {
	case <-p.ended:
		exited = p.cmd.ProcessState.ExitCode()
	default:
	}
	p.abandon()
	said := p.said.String()
	var known *Error
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return ctx.Err()
	case errors.As(err, &known):
		if known.Kind == NotCopied && said != "" {
			known.Text += ": " + said
		}
		return known
	case ctx.Err() != nil && p.doing != "":
		out.Kind, out.Text = CutShort, "no answer in time while tare was "+p.doing
	case ctx.Err() != nil:
		out.Kind, out.Text = Unreachable, "no answer in time"
	case exited == sshFailed && p.doing != "":
		out.Kind, out.Text = CutShort, "the connection was lost while tare was "+p.doing
	case exited == sshFailed:
		out.Kind, out.Text = Unreachable, cmp.Or(said, "ssh failed without a word")
		return out
	default:
		out.Kind, out.Text = NotStarted, "tare could not be started there"
		if !errors.Is(err, io.EOF) {
			out.Text += ": " + err.Error()
		}
	}
	if said != "" {
		out.Text += ": " + said
	}
	return out
}

// sshFailed is the exit code of ssh for an error of its own.
const sshFailed = 255

// waitFor waits for the end of the process, but not longer than a limit.
func (p *process) waitFor(limit time.Duration) (ended bool) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-p.ended:
		return true
	case <-late.C:
		return false
	}
}

// abandon ends the process in any case.
func (p *process) abandon() {
	p.kill()
	<-p.ended
	_ = p.out.Close() // it was only read
}

// A tail keeps the last lines that are written to it, and passes every line on. It cuts long ones.
type tail struct {
	said func(line string) // nil = nobody

	mu    sync.Mutex
	lines []string
	begun []byte // the line that has not ended
}

// maxLines is how many lines a tail keeps.
const maxLines = 5

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for piece := range bytes.Lines(p) {
		t.begun = append(t.begun, piece[:min(len(piece), maxLine-len(t.begun))]...)
		if piece[len(piece)-1] == '\n' || len(t.begun) == maxLine {
			t.end()
		}
	}
	return len(p), nil
}

// end ends a line.
func (t *tail) end() {
	line := strings.TrimSpace(string(t.begun))
	t.begun = t.begun[:0]
	if line == "" {
		return
	}
	t.lines = append(t.lines[max(0, len(t.lines)-maxLines+1):], line)
	if t.said != nil {
		t.said(line)
	}
}

// String returns the last lines, in one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	return strings.Join(t.lines, "; ")
}
