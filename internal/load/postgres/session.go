package postgres

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/socket"
)

// The phases of a session. step reacts to a message of the server:
//
//	phase       ends when                               next phase
//	closed      it gets a transaction, or before the    connecting
//	            load where connections are made once
//	connecting  the socket is writable                  starting; encrypting is a part of it
//	starting    the server is ready                     preparing; running with connect=each
//	preparing   all statements are prepared             idle
//	idle        it gets a transaction                   running
//	running     the last statement is answered          idle; ending with connect=each
//	rollingBack the failed transaction is rolled back   idle; ending with connect=each
//	ending      the server has closed the connection    closed
type phase int

const (
	closed phase = iota
	connecting
	starting
	preparing
	idle
	running
	rollingBack
	ending
)

// A session is one client: a connection, which is made again after it was closed.
type session struct {
	key    int
	phase  phase
	socket stream
	stream io.ReadWriter // of the socket, or over TLS
	login  login
	keys   scramKeys // kept from one login to the next
	random random
	values [parameters]int64 // of the current transaction

	origin  time.Duration // when the current transaction was due, or was begun
	opened  time.Duration // when it began to connect
	began   time.Duration // when the first statement was sent
	sent    time.Duration // when the current statement was sent
	current int           // the current statement
	state   byte          // of the server's session, at the last ReadyForQuery
	rows    int           // of the current statement
	tag     []byte        // how the server has confirmed the current statement
	refused *ServerError  // why the server has refused the current statement; nil = it has not

	messages int // of the server since the last one was sent

	in     []byte // what has come; the first filled bytes are in use
	filled int
	out    []byte // the message that is sent
}

// roomOfSession is the room for the longest message of the server to a session.
const roomOfSession = 16 << 10

// connect begins to make the connection of a session.
func (w *worker) connect(s *session) {
	fd, errno := socket.Dial(&w.to)
	if errno == 0 {
		s.socket = stream{fd: fd, within: w.answerTime}
		if errno = w.Poll.Add(fd, s.key, socket.Edges); errno != 0 {
			socket.Close(fd)
		}
	}
	if errno != 0 {
		w.fail(fmt.Errorf("connect to PostgreSQL at %s: %w", w.target.where(), errno))
		return
	}
	s.phase, s.opened, s.sent, s.filled, s.messages = connecting, w.Now, w.Now, 0, 0
}

// handle reacts to events of a session's socket.
func (w *worker) handle(s *session, events uint32) {
	if s.phase == connecting {
		if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
			return
		}
		if err := w.start(s); err != nil {
			w.fail(fmt.Errorf("connect to PostgreSQL at %s: %w", w.target.where(), err))
			return
		}
	}
	if s.phase != closed && events&^unix.EPOLLOUT != 0 {
		w.receive(s)
	}
}

// start sends the first message of a connection.
func (w *worker) start(s *session) (err error) {
	if err := s.socket.connect(); err != nil {
		return err
	}
	s.socket.waits = true // the handshake of TLS is made in one go, as libpq does it
	if s.stream, err = w.target.encrypt(&s.socket); err != nil {
		return err
	}
	s.socket.waits = false
	if errno := w.Poll.Change(s.socket.fd, s.key, socket.Incoming); errno != 0 {
		return errno
	}
	s.phase, s.login = starting, w.target.login()
	s.login.keys = &s.keys
	_, err = s.stream.Write(w.startup)
	return err
}

// receive reads what has come. A read that does not fill the buffer has taken everything; later data
// cause a new event. Over TLS, what was decrypted may wait without an event, so it reads until there
// is nothing.
func (w *worker) receive(s *session) {
	for !w.failed() && s.phase != closed {
		room := s.in[s.filled:]
		n, err := s.stream.Read(room)
		if err == errWouldBlock {
			return
		}
		w.Read()
		if err != nil {
			w.lost(s, err)
			return
		}
		s.filled += n
		w.take(s)
		if n < len(room) && w.target.TLS == nil {
			return
		}
	}
}

// lost handles the end of a connection.
func (w *worker) lost(s *session, err error) {
	switch {
	case s.phase == ending:
		socket.Close(s.socket.fd)
		s.phase = closed
		w.Free.Push(s.key)
	case err == io.EOF:
		w.fail(ErrLost)
	default:
		w.fail(errors.Join(s.lastError(), fmt.Errorf("%w: %w", ErrLost, err)))
	}
}

// lastError returns the error that a server told before it closed the connection, if it did.
func (s *session) lastError() error {
	n, _ := s.stream.Read(s.in[s.filled:]) // the connection's own error is known
	for rest := s.in[:s.filled+max(n, 0)]; ; {
		m, length, err := split(rest, roomOfSession)
		if err != nil || length == 0 {
			return nil
		}
		if rest = rest[length:]; m.kind == fromError {
			e, err := parseError(m.body)
			return errors.Join(err, asError(e))
		}
	}
}

// take reads the messages that have come.
func (w *worker) take(s *session) {
	used := 0
	for !w.failed() && s.phase != closed {
		m, length, err := split(s.in[used:s.filled], roomOfSession)
		if err == nil && length > 0 {
			used += length
			err = w.step(s, m)
		}
		if err != nil {
			w.fail(err)
			return
		}
		if length == 0 {
			break
		}
	}
	s.filled = copy(s.in, s.in[used:s.filled])
}

// maxMessages bounds the messages of a server between two of a session, such as notices.
const maxMessages = 10_000

// step reacts to a message.
func (w *worker) step(s *session, m message) error {
	if s.messages++; s.messages > maxMessages {
		return protocolError("more than %d messages before it is ready", maxMessages)
	}
	switch s.phase {
	case starting:
		reply, ready, err := s.login.answer(m)
		if err != nil {
			return fmt.Errorf("connect to PostgreSQL at %s: %w", w.target.where(), err)
		}
		if len(reply) > 0 {
			_, err = s.stream.Write(reply)
		}
		if ready {
			w.connected(s)
		}
		return err
	case idle:
		if m.kind == fromReady {
			return m.unexpected("a pause")
		}
	case ending:
		return nil
	}
	switch m.kind {
	case fromReady:
		state, err := m.state()
		if err != nil {
			return err
		}
		s.state = state
		return w.ready(s)
	case fromError:
		return s.refuse(m)
	case fromDataRow:
		s.rows++
	case fromCommandComplete:
		s.tag = append(s.tag[:0], m.body...)
	case fromParseComplete, fromBindComplete:
	default:
		if !m.isComment() {
			return m.unexpected("a transaction")
		}
	}
	return nil
}
