package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/socket"
)

// TLS encrypts a connection: it makes the handshake as a client, and returns what the messages are
// then read from and written to. After the handshake, a Read of raw may return an error that says
// Temporary: then nothing has come yet, and it is to be read again later.
type TLS func(raw io.ReadWriter) (io.ReadWriter, error)

// A stream is a socket that is read and written as Go's libraries want it.
type stream struct {
	fd     int
	waits  bool          // a Read waits for data
	within time.Duration // how long a Read or a Write may wait
}

// errWouldBlock is the error of a Read for which no data have come yet.
var errWouldBlock error = temporary{}

// temporary has the methods of a net.Error.
type temporary struct{}

func (temporary) Error() string   { return "no data have come yet" }
func (temporary) Temporary() bool { return true }
func (temporary) Timeout() bool   { return true }

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, errno := socket.Receive(s.fd, p)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && !s.waits:
			return 0, errWouldBlock
		case errno == unix.EAGAIN:
			if err := s.await(unix.POLLIN); err != nil {
				return 0, err
			}
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write implements io.Writer. It waits until the kernel has taken everything.
func (s *stream) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n, errno := socket.Send(s.fd, p[sent:], 0)
		switch errno {
		case 0:
			sent += n
		case unix.EINTR:
		case unix.EAGAIN:
			if err := s.await(unix.POLLOUT); err != nil {
				return sent, err
			}
		default:
			return sent, errno
		}
	}
	return len(p), nil
}

// await waits until the socket is ready for the events.
func (s *stream) await(events int16) error {
	for end := time.Now().Add(s.within); ; {
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("the server has not answered within %v: %w", s.within, unix.ETIMEDOUT)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: events}}, int(left/time.Millisecond)+1)
		if n > 0 || err != nil && err != syscall.EINTR {
			return err
		}
	}
}

// connect waits until a socket that Dial has made is connected.
func (s *stream) connect() error {
	if err := s.await(unix.POLLOUT); err != nil {
		return err
	}
	code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}

// address returns where the server is, in the kernel's format.
func (c *Config) address() (socket.Address, error) {
	if c.Socket != "" {
		return socket.UnixAddressOf(SocketPath(c.Socket, c.port()))
	}
	if !c.Address.IsValid() {
		return socket.Address{}, errors.New("no server given: want ADDRESS:PORT or the directory of a socket")
	}
	return socket.AddressOf(c.Address), nil
}

// interrupt ends what waits for the socket.
func (s *stream) interrupt() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) } // it may already be closed by the server

// encrypt asks the server for TLS, where it is wanted, and makes the handshake. The stream waits.
func (c *Config) encrypt(s *stream) (io.ReadWriter, error) {
	if c.TLS == nil {
		return s, nil
	}
	request := binary.BigEndian.AppendUint32(nil, 8)
	if _, err := s.Write(binary.BigEndian.AppendUint32(request, sslRequest)); err != nil {
		return nil, err
	}
	var answer [1]byte // nothing more may have come: it would be read as if it were encrypted
	if _, err := s.Read(answer[:]); err != nil {
		return nil, err
	}
	if answer[0] != 'S' {
		return nil, ErrNoTLS
	}
	encrypted, err := c.TLS(s)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return encrypted, nil
}

// ErrNoTLS is the error of a server that does not encrypt connections.
var ErrNoTLS = errors.New("the server has no TLS: start it with ssl=on, or use tls=no")
