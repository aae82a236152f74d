package network

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A wire is a TCP connection that carries lines.
type wire struct {
	file *os.File
	in   *bufio.Reader
}

// newWire takes over a socket.
func newWire(fd int) (*wire, error) {
	err := errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	if err != nil {
		closeAll(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connection")
	return &wire{f, bufio.NewReaderSize(f, maxHello)}, nil
}

// line reads one line, without its newline, of at most limit bytes.
func (w *wire) line(limit int) (string, error) {
	var line []byte
	for {
		part, err := w.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return "", fmt.Errorf("%w: a line of more than %d bytes", ErrForeign, limit)
		case err == nil:
			return string(line[:len(line)-1]), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// say sends one line.
func (w *wire) say(line string) error {
	if err := w.file.SetWriteDeadline(time.Now().Add(replyLimit)); err != nil {
		return err
	}
	_, err := w.file.WriteString(line + "\n")
	return err
}

// tell sends a message.
func (w *wire) tell(message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.say(string(b))
}

// hear reads a message.
func (w *wire) hear(message any) error {
	line, err := w.line(maxLine)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), message); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return nil
}

// within limits the time for what is read next; 0 = no limit.
func (w *wire) within(limit time.Duration) error {
	if limit == 0 {
		return w.file.SetReadDeadline(time.Time{})
	}
	return w.file.SetReadDeadline(time.Now().Add(limit))
}

// release returns the socket, for data. It fails if more has come than was read.
func (w *wire) release() (int, error) {
	if w.in.Buffered() > 0 {
		return -1, errors.Join(fmt.Errorf("%w: data came too early", ErrForeign), w.file.Close())
	}
	fd, err := unix.FcntlInt(w.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	return fd, errors.Join(err, w.file.Close())
}

func (w *wire) close() { _ = w.file.Close() } // nothing is waiting to be written

// ended reports whether an error means that the other side has closed.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
