package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// tailSize limits how much of a log or an output is read to explain a failure, in bytes.
const tailSize = 64 << 10

// run runs one command of the runtime. The command writes directly to the given files, so tare
// copies nothing while it runs. When ctx ends, the command's whole process group is killed.
func run(ctx context.Context, h *hostInfo, stdout, stderr *os.File, args []string) error {
	cmd := exec.Command(h.binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = h.null, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// exec.CommandContext would start a goroutine for each command.
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = killGroup(cmd.Process.Pid) // it may have ended just now
	})
	// Wait frees the process's number, so nothing may be killed by that number afterwards.
	waiting := awaitExit(cmd.Process.Pid)
	if !stop() {
		<-killed
	}
	err := errors.Join(waiting, cmd.Wait())
	if err == nil {
		return nil
	}
	endGroupOf(cmd.Process.Pid)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

func killGroup(pid int) error { return unix.Kill(-pid, unix.SIGKILL) }

// endGroupOf kills the helper processes that outlived a command, whose process group they are in,
// and collects their exit status. Orphans become children of this process, because it is their
// reaper. While one of them exists, no other group gets the group's number. A process that outlives
// SIGKILL by more than a second hangs in the kernel; endGroupOf does not wait for it.
func endGroupOf(group int) {
	for range 1000 {
		if !reap(-group) {
			return
		}
		_ = killGroup(group) // it may have ended just now
		time.Sleep(time.Millisecond)
	}
}

// reap collects the exit status of a child, or of the children in process group -pid, without
// waiting. It reports whether running children are left.
func reap(pid int) (left bool) {
	for {
		n, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		switch {
		case err == nil && n == 0:
			return true
		case err != nil && !errors.Is(err, unix.EINTR):
			return false
		}
	}
}

// orphanGrace is how long a child must have been dead before tare assumes that no goroutine waits for
// it.
const orphanGrace = 50 * time.Millisecond

// collectOrphans collects the exit status of orphans that this process got as their reaper and that
// no goroutine waits for: processes that a killed runtime had started outside its process group.
func collectOrphans() {
	dead := deadChildren()
	if len(dead) == 0 {
		return
	}
	time.Sleep(orphanGrace)
	for _, p := range deadChildren() {
		if slices.Contains(dead, p) {
			reap(p.PID)
		}
	}
}

func deadChildren() []proc.Process {
	all, err := proc.All("/")
	if err != nil {
		return nil // they stay until this process ends, and use one process number each
	}
	self := os.Getpid()
	return slices.DeleteFunc(all, func(p proc.Process) bool { return p.Parent != self || p.State != 'Z' })
}

// A commandError is how a command of the runtime failed.
type commandError struct {
	argv    []string
	err     error
	last    string // its last message; empty if none
	omitted int    // number of lines before it
}

func (e *commandError) Error() string {
	s := fmt.Sprintf("%s: %v", strings.Join(e.argv, " "), e.err)
	if e.last != "" {
		s += ": " + e.last
	}
	if e.omitted > 0 {
		s += fmt.Sprintf(" (+%d lines omitted)", e.omitted)
	}
	return s
}

func (e *commandError) Unwrap() error { return e.err }

// commandFailure makes the error of a failed command. It has the last message of the runtime's log or,
// without one, the last line of stderr. youki prints the stack below its reasons.
func commandFailure(argv []string, err error, log, stderr []byte) error {
	e := &commandError{argv: argv, err: err}
	lines := linesOf(log)
	if len(lines) == 0 {
		reasons, _, _ := bytes.Cut(stderr, []byte("Stack backtrace:"))
		lines = linesOf(reasons)
	}
	if len(lines) > 0 {
		e.last = message(lines[len(lines)-1])
		e.omitted = len(lines) - 1
	}
	return e
}

// linesOf splits text into those of its lines that are not empty.
func linesOf(text []byte) [][]byte {
	var lines [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// message takes the message from a line of a JSON log. Any other line is itself the message.
// Unprintable characters are quoted.
func message(line []byte) string {
	var entry struct {
		Message string `json:"msg"`
	}
	text := string(line)
	if json.Unmarshal(line, &entry) == nil && entry.Message != "" {
		text = entry.Message
	}
	const longest = 500
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.TrimSpace(text)
}

// tail reads the end of a file; nothing if the file cannot be read.
func tail(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	size, _ := f.Seek(0, io.SeekEnd)
	text, _ := io.ReadAll(io.NewSectionReader(f, max(0, size-tailSize), tailSize)) // as much as can be read
	return text
}
