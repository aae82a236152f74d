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

// A jsonConn is a TCP connection that carries lines.
type jsonConn struct {
	file *os.File
	in   *bufio.Reader
}

// newJSONConn takes over a socket.
func newJSONConn(fd int) (*jsonConn, error) {
	err := errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	if err != nil {
		closeAll(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connection")
	return &jsonConn{f, bufio.NewReaderSize(f, maxHello)}, nil
}

// line reads one line, without its newline, of at most limit bytes.
func (w *jsonConn) line(limit int) (string, error) {
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

// writeLine sends one line.
func (w *jsonConn) writeLine(line string) error {
	if err := w.file.SetWriteDeadline(time.Now().Add(replyLimit)); err != nil {
		return err
	}
	_, err := w.file.WriteString(line + "\n")
	return err
}

// write sends a message.
func (w *jsonConn) write(message any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.writeLine(string(b))
}

// read reads a message.
func (w *jsonConn) read(message any) error {
	line, err := w.line(maxLine)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), message); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return nil
}

// setReadLimit limits the time for what is read next; 0 = no limit.
func (w *jsonConn) setReadLimit(limit time.Duration) error {
	if limit == 0 {
		return w.file.SetReadDeadline(time.Time{})
	}
	return w.file.SetReadDeadline(time.Now().Add(limit))
}

// release returns the socket, for data. It fails if more has come than was read.
func (w *jsonConn) release() (int, error) {
	if w.in.Buffered() > 0 {
		return -1, errors.Join(fmt.Errorf("%w: data came too early", ErrForeign), w.file.Close())
	}
	fd, err := unix.FcntlInt(w.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	return fd, errors.Join(err, w.file.Close())
}

func (w *jsonConn) close() { _ = w.file.Close() } // nothing is waiting to be written

// isClosed reports whether an error means that the other side has closed.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
