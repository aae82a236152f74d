package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A duplex is a net.Conn of two files: one that is read, and one that is written.
type duplex struct {
	reader io.Reader // of in, which may have been read ahead
	in     *os.File
	out    *os.File
	// closed is called once, after out was closed.
	closed func()
	once   sync.Once
}

// Read implements net.Conn.
func (d *duplex) Read(p []byte) (int, error) { return d.reader.Read(p) }

// Write implements net.Conn.
func (d *duplex) Write(p []byte) (int, error) { return d.out.Write(p) }

// Close implements net.Conn. The other side sees the end of its input.
func (d *duplex) Close() (err error) {
	d.once.Do(func() {
		err = d.out.Close()
		_ = d.in.SetReadDeadline(time.Unix(1, 0)) // ends a Read, if the file can
		if d.closed != nil {
			d.closed()
		}
	})
	return err
}

// LocalAddr implements net.Conn.
func (*duplex) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements net.Conn.
func (*duplex) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline implements net.Conn.
func (d *duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.SetReadDeadline(t), d.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (d *duplex) SetReadDeadline(t time.Time) error { return d.in.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (d *duplex) SetWriteDeadline(t time.Time) error { return d.out.SetWriteDeadline(t) }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
