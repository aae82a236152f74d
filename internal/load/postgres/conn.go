package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load/socket"
)

// The bounds of what a Conn reads.
const (
	maxMessage = 1 << 20  // bytes of one message
	maxAnswer  = 16 << 20 // bytes of the rows of one query
)

// ErrTooLong is the error of a query whose answer is longer than a Conn reads.
var ErrTooLong = fmt.Errorf("the answer is longer than %d bytes: ask for less", maxAnswer)

// longAnswer is how long a server may take for an answer to a Conn. A context ends a wait sooner.
const longAnswer = time.Hour

// A Conn is a connection for statistics, settings and tables: for few statements, whose cost does
// not matter. It is for one goroutine.
type Conn struct {
	where      string
	socket     stream
	stream     io.ReadWriter // of the socket, or over TLS
	tls        bool
	in         []byte // what was read; the first used bytes are done with
	used       int
	parameters map[string]string
	broken     error // why it cannot be used any more
}

// Dial connects to a server. An error that the server told is a *ServerError. Close the connection
// after use.
func Dial(ctx context.Context, config Config) (*Conn, error) {
	c := &Conn{where: config.where(), parameters: map[string]string{}}
	to, err := config.address()
	if err != nil {
		return nil, err
	}
	fd, errno := socket.Dial(&to)
	if errno != 0 {
		return nil, fmt.Errorf("connect to PostgreSQL at %s: %w", c.where, errno)
	}
	c.socket = stream{fd: fd, waits: true, within: longAnswer}
	if err := c.during(ctx, func() error { return c.login(&config) }); err != nil {
		socket.Close(fd)
		return nil, fmt.Errorf("connect to PostgreSQL at %s: %w", c.where, err)
	}
	return c, nil
}

// Close ends the session. The connection cannot be used afterwards.
func (c *Conn) Close() error {
	if c.broken == nil {
		_, _ = c.stream.Write(appendMessage(nil, toTerminate, "")) // the server notices the end anyway
	}
	if c.broken != errClosed {
		c.broken = errClosed
		socket.Close(c.socket.fd)
	}
	return nil
}

var errClosed = errors.New("the connection is closed")

// TLS reports whether the connection is encrypted.
func (c *Conn) TLS() bool { return c.tls }

// Parameter returns a setting that the server told when the session began, such as
// server_version; "" if it did not tell it.
func (c *Conn) Parameter(name string) string { return c.parameters[name] }

// during runs do, and interrupts it if the context ends. After an error of the connection, it is
// broken.
func (c *Conn) during(ctx context.Context, do func() error) error {
	if c.broken != nil {
		return c.broken
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.socket.interrupt()
		close(interrupted)
	})
	err := do()
	if !stop() {
		<-interrupted
		err = context.Cause(ctx)
		c.broken = err
	}
	var told *ServerError
	if err != nil && (!errors.As(err, &told) || told.ends()) {
		c.broken = err
	}
	return err
}

func (c *Conn) login(config *Config) error {
	if err := c.socket.connect(); err != nil {
		return err
	}
	var err error
	if c.stream, err = config.encrypt(&c.socket); err != nil {
		return err
	}
	c.tls = config.TLS != nil
	if _, err := c.stream.Write(config.startup()); err != nil {
		return err
	}
	for l := config.login(); ; {
		m, err := c.next()
		if err != nil {
			return err
		}
		c.note(m)
		reply, ready, err := l.answer(m)
		if err != nil || ready {
			return err
		}
		if _, err := c.stream.Write(reply); err != nil {
			return err
		}
	}
}

// maxParameters is the number of a server's parameters that are kept; PostgreSQL tells some 15.
const maxParameters = 100

// note keeps a parameter of the server.
func (c *Conn) note(m message) {
	if m.kind != fromParameterStatus || len(c.parameters) >= maxParameters {
		return
	}
	name, rest, ok1 := cutString(m.body)
	value, _, ok2 := cutString(rest)
	if ok1 && ok2 && len(m.body) <= maxErrorField {
		c.parameters[name] = value
	}
}

// next reads a message.
func (c *Conn) next() (message, error) {
	for {
		m, length, err := split(c.in[c.used:], maxMessage)
		if err != nil {
			return message{}, err
		}
		if length > 0 {
			c.used += length
			return m, nil
		}
		c.in = append(c.in[:0], c.in[c.used:]...)
		c.used = 0
		if err := c.fill(); err != nil {
			return message{}, err
		}
	}
}

// fill reads what has come.
func (c *Conn) fill() error {
	const room = 8 << 10
	have := len(c.in)
	c.in = append(c.in, make([]byte, room)...)
	n, err := c.stream.Read(c.in[have:])
	c.in = c.in[:have+max(n, 0)]
	if err == io.EOF {
		err = errors.New("the server has closed the connection")
	}
	if n > 0 {
		return nil
	}
	return err
}

// Exec executes SQL: one statement, or several between semicolons. Rows of their results are
// ignored.
func (c *Conn) Exec(ctx context.Context, sql string) error {
	return c.during(ctx, func() error { return c.query(sql, nil) })
}

// Query executes one statement, and returns the rows of its result as text; a null is "". Rows of
// more than 16 MiB are ErrTooLong.
func (c *Conn) Query(ctx context.Context, sql string) (rows [][]string, err error) {
	total := 0
	err = c.during(ctx, func() error {
		return c.query(sql, func(r row) error {
			if total += len(r); total > maxAnswer {
				return ErrTooLong
			}
			var fields []string
			err := r.fields(func(value []byte, _ bool) { fields = append(fields, string(value)) })
			rows = append(rows, fields)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// query executes SQL and gives each row to add, unless that is nil.
func (c *Conn) query(sql string, add func(row) error) error {
	if bytes.IndexByte([]byte(sql), 0) >= 0 {
		return &ServerError{Severity: "ERROR", Code: "22021", Message: "a statement with a zero byte"}
	}
	if _, err := c.stream.Write(appendMessage(nil, toQuery, sql+"\x00")); err != nil {
		return err
	}
	return c.finish(func(m message) error {
		switch m.kind {
		case fromDataRow:
			if add != nil {
				return add(row(m.body))
			}
		case fromRowDescription, fromCommandComplete, fromEmptyQuery:
		default:
			return m.unexpected("a query")
		}
		return nil
	})
}

// finish reads messages until the server is ready. It returns the first error that the server told.
func (c *Conn) finish(take func(message) error) error {
	var told error
	for {
		m, err := c.next()
		if err != nil {
			return errors.Join(told, err)
		}
		switch {
		case m.kind == fromReady:
			if _, err := m.state(); err != nil {
				return err
			}
			return told
		case m.kind == fromError:
			e, err := parseError(m.body)
			if err != nil || e.ends() {
				return errors.Join(err, asError(e))
			}
			if told == nil {
				told = e
			}
		case !m.isComment():
			if err := take(m); err != nil {
				return err
			}
		}
	}
}

func asError(e *ServerError) error {
	if e == nil {
		return nil
	}
	return e
}

// CopyIn executes a COPY … FROM STDIN with the data that it reads, and returns the number of rows.
func (c *Conn) CopyIn(ctx context.Context, sql string, data io.Reader) (rows int64, err error) {
	err = c.during(ctx, func() error {
		if _, err := c.stream.Write(appendMessage(nil, toQuery, sql+"\x00")); err != nil {
			return err
		}
		return c.finish(func(m message) error {
			switch m.kind {
			case fromCopyIn:
				return c.copyData(data)
			case fromCommandComplete:
				rows, err = copied(m.body)
				return err
			default:
				return m.unexpected("COPY FROM STDIN")
			}
		})
	})
	return rows, err
}

// copyData sends the data of a COPY. If reading them fails, the server is told to forget them.
func (c *Conn) copyData(data io.Reader) error {
	const chunk = 64 << 10
	buffer := make([]byte, headLen+chunk)
	for {
		n, err := io.ReadFull(data, buffer[headLen:])
		open(buffer[:0], toCopyData)
		if n > 0 {
			if _, err := c.stream.Write(seal(buffer[:headLen+n], 0)); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			_, err = c.stream.Write(appendMessage(nil, toCopyDone, ""))
			return err
		default:
			_, sent := c.stream.Write(appendMessage(nil, toCopyFail, "the data could not be read\x00"))
			return errors.Join(err, sent)
		}
	}
}

// copied reads the tag of a COPY, such as "COPY 100".
func copied(tag []byte) (int64, error) {
	text, _, _ := cutString(tag)
	count, ok := bytes.CutPrefix([]byte(text), []byte("COPY "))
	rows, err := strconv.ParseInt(string(count), 10, 64)
	if !ok || err != nil || rows < 0 {
		return 0, protocolError("a wrong end of COPY: %.80q", text)
	}
	return rows, nil
}
