package native

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// chunk is how much is copied at once: half of what a pipe holds.
const chunk = 32 << 10

// A pipe copies a process's output to a writer. A nil pipe copies nothing.
type pipe struct {
	r, w *os.File
	to   stdstream.Sink
	done chan struct{}
	buf  []byte
}

func newPipe(to io.Writer) (*pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &pipe{r: r, w: w, to: stdstream.Sink{To: to}, buf: make([]byte, chunk)}, nil
}

// run begins to copy. The process has its own descriptor of the other end.
func (p *pipe) run() {
	if p == nil {
		return
	}
	_ = p.w.Close() // tare writes nothing to it
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		for {
			n, err := p.r.Read(p.buf)
			_, _ = p.to.Write(p.buf[:n]) // a sink takes everything
			if errors.Is(err, os.ErrDeadlineExceeded) {
				p.drain()
				return
			}
			if err != nil {
				return
			}
		}
	}()
}

// finish returns when all output has been copied. The process has exited, so all its output is in
// the pipe. finish does not wait for the end of file, because an escaped process may hold the other
// end open forever.
func (p *pipe) finish() {
	if p == nil {
		return
	}
	// A descriptor without deadlines would be a bug of package os: pipes have them.
	_ = p.r.SetReadDeadline(time.Unix(1, 0))
	<-p.done
}

// drain copies what is in the pipe now. It stops when the pipe is empty, and at the latest after the
// pipe's capacity, because an escaped process may still be printing.
func (p *pipe) drain() {
	_ = p.r.SetReadDeadline(time.Time{}) // see finish
	conn, err := p.r.SyscallConn()
	if err != nil {
		return // closed
	}
	left := 0
	_ = conn.Control(func(fd uintptr) { left, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }) // a pipe gives no error
	for left > 0 {
		n := 0
		_ = conn.Read(func(fd uintptr) bool { // n says enough
			n, _ = unix.Read(int(fd), p.buf[:min(left, chunk)])
			return true // do not wait for more
		})
		if n <= 0 {
			return // end of file, or empty
		}
		_, _ = p.to.Write(p.buf[:n]) // as above
		left -= n
	}
}

// close closes both ends, after finish or if run was never called.
func (p *pipe) close() {
	if p == nil {
		return
	}
	_ = p.w.Close() // run may have closed it
	_ = p.r.Close() // only reads: nothing is lost
}
