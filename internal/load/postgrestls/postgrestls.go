// Package postgrestls is load/postgres that can also encrypt its connections, with Go's TLS library. It is
// not a part of the agent, which it would make half as large again: tare's own program runs this load.
package postgrestls

import (
	"crypto/tls"
	"io"
	"net"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/postgres"
)

// Name is the name of the load.
const Name = "postgrestls"

// Run runs the load postgres, which can use TLS here.
func Run(a *load.Args) (*load.Report, error) { return postgres.RunWith(a, Client) }

// Client makes the handshake of a client, for postgres.Config. The server's certificate is not
// verified: it is one that the server's package or the workload has made.
func Client(raw io.ReadWriter) (io.ReadWriter, error) {
	c := tls.Client(&conn{raw}, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return c, nil
}

// A conn is a net.Conn whose only working methods are those that TLS needs.
type conn struct{ io.ReadWriter }

func (*conn) Close() error                     { return nil }
func (*conn) LocalAddr() net.Addr              { return nil }
func (*conn) RemoteAddr() net.Addr             { return nil }
func (*conn) SetDeadline(time.Time) error      { return nil }
func (*conn) SetReadDeadline(time.Time) error  { return nil }
func (*conn) SetWriteDeadline(time.Time) error { return nil }
