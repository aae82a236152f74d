package oci

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// A pipe receives what a process prints to one of its streams. A nil pipe can be closed.
type pipe struct {
	r, w *os.File
	done chan struct{} // closed when all output was copied; nil before copy
}

// newPipe makes a pipe. Its read end does not block, so that closing it ends a read. Its write end
// blocks, as programs expect.
func newPipe() (*pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return &pipe{r: os.NewFile(uintptr(fds[0]), "output"), w: os.NewFile(uintptr(fds[1]), "output")}, nil
}

// copy begins to copy the output to w, until no process can print any more. Output for a nil w is
// discarded, and so is all output after an error of w, because a process blocks when its pipe is
// full.
func (p *pipe) copy(w io.Writer) {
	p.done = make(chan struct{})
	go func(r io.Reader, done chan<- struct{}) {
		defer close(done)
		stdstream.Drain(w, r)
	}(p.r, p.done)
}

// closeWrite closes this process's write end, so that reading ends when the container's processes
// have ended.
func (p *pipe) closeWrite() {
	if p.w != nil {
		_ = p.w.Close() // tare writes nothing to it
		p.w = nil
	}
}

// pending returns the contents of the pipe, at most 64 KiB, without waiting.
func (p *pipe) pending() []byte {
	if p == nil || p.r == nil {
		return nil
	}
	text := make([]byte, tailSize)
	n := 0
	raw, err := p.r.SyscallConn()
	if err != nil {
		return nil
	}
	// An error means that there is nothing to show.
	_ = raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), text) })
	return text[:max(n, 0)]
}

// wait returns when all output has been copied.
func (p *pipe) wait(ctx context.Context) error {
	if p.done == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close also ends the copying.
func (p *pipe) close() {
	if p == nil {
		return
	}
	p.closeWrite()
	if p.r != nil {
		_ = p.r.Close() // it was only read
	}
}
