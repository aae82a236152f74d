package network

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A target is the address of a server, with its token.
type target struct {
	tcp, udp netip.AddrPort
	token    string
}

// targetOf reads the options that every client has.
func targetOf(a *load.Args) func() (target, error) {
	text := a.Text("addr", "")
	datagrams := a.Text("udp", text)
	return func() (t target, err error) {
		if t.tcp, err = address("addr", text); err != nil {
			return t, err
		}
		if t.udp, err = address("udp", datagrams); err != nil {
			return t, err
		}
		t.token, err = token()
		return t, err
	}
}

func address(option, text string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return addr, fmt.Errorf("%s=%.80q: want ADDRESS:PORT of a server, such as 127.0.0.1:4810", option, text)
	}
	return addr, nil
}

// A client is a control connection to a server.
type client struct {
	target
	jsonConn *jsonConn
	answers  chan answer
	gone     atomic.Bool // the server has closed the connection
	why      error       // set before answers is closed
}

// connect opens a control connection. The caller closes it.
func connect(t target) (*client, error) {
	w, err := greet(t, nil)
	if err != nil {
		return nil, err
	}
	c := &client{target: t, jsonConn: w, answers: make(chan answer, 2*maxStreams)}
	go c.readAnswers()
	return c, nil
}

// greet opens a connection for a stream, or for control if stream is nil.
func greet(t target, stream *streamID) (*jsonConn, error) {
	fd, err := dial(t.tcp, unix.SOCK_STREAM, replyLimit)
	if err != nil {
		return nil, err
	}
	w, err := newJSONConn(fd)
	if err != nil {
		return nil, err
	}
	if err := w.greeted(hello{Version, t.token, stream}); err != nil {
		w.close()
		return nil, fmt.Errorf("%v: %w", t.tcp, err)
	}
	return w, nil
}

func (w *jsonConn) greeted(h hello) error {
	if err := errors.Join(w.writeLine(h.String()), w.setReadLimit(replyLimit)); err != nil {
		return err
	}
	line, err := w.line(maxHello)
	if isClosed(err) {
		return fmt.Errorf("%w: it closed the connection without an answer", ErrForeign)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return parseReply(line)
}

// readAnswers passes on the server's answers until the connection ends.
func (c *client) readAnswers() {
	defer close(c.answers)
	defer c.gone.Store(true)
	if c.why = c.jsonConn.setReadLimit(0); c.why != nil {
		return
	}
	for {
		var a answer
		if c.why = c.jsonConn.read(&a); c.why != nil {
			return
		}
		select {
		case c.answers <- a:
		default:
			c.why = fmt.Errorf("%w: too many answers", ErrForeign)
			return
		}
	}
}

func (c *client) close() { c.jsonConn.close() }

// answer waits for the server's next answer.
func (c *client) answer(limit time.Duration) (answer, error) {
	select {
	case a, ok := <-c.answers:
		switch {
		case !ok && isClosed(c.why):
			return a, fmt.Errorf("%v: %w", c.tcp, ErrGone)
		case !ok:
			return a, fmt.Errorf("%v: %w", c.tcp, c.why)
		case a.Error != "":
			return a, fmt.Errorf("%v: %w: %.200s", c.tcp, ErrRefused, plain.Line(a.Error))
		default:
			return a, nil
		}
	case <-time.After(limit):
		return answer{}, fmt.Errorf("%v: %w: no answer within %v", c.tcp, ErrGone, limit)
	}
}

// A session is the client's side of a session.
type session struct {
	*side
	client      *client
	noSharedCPU bool // no CPU is shared with the server, or the plan does not pin
}

// open opens a session and joins its streams. The caller halts it.
func (c *client) open(p plan) (*session, error) {
	if err := c.jsonConn.write(request{Op: opOpen, Plan: &p}); err != nil {
		return nil, fmt.Errorf("%v: %w: %w", c.tcp, ErrGone, err)
	}
	a, err := c.answer(replyLimit)
	if err != nil {
		return nil, err
	}
	s := &session{client: c, noSharedCPU: true}
	var cpus []int
	if p.Pin {
		cpus, s.noSharedCPU = clientCPUs(affinity.Allowed(), a.CPUs, p.count())
	}
	s.side = newSide(p, a.Key, false, cpus)
	for i := range s.flows {
		if err := s.joinStream(i); err != nil {
			s.endSession()
			return nil, err
		}
	}
	return s, nil
}

// joinStream opens one stream.
func (s *session) joinStream(i int) error {
	if s.plan.Protocol == udp {
		return s.knock(i)
	}
	w, err := greet(s.client.target, &streamID{s.key, i})
	if err != nil {
		return err
	}
	fd, err := w.release()
	if err == nil {
		err = s.join(i, fd)
	}
	if err != nil {
		closeAll(fd)
	}
	return err
}

// knock sends datagrams until the server says that one has come.
func (s *session) knock(i int) error {
	fd, err := dial(s.client.udp, unix.SOCK_DGRAM, replyLimit)
	if err != nil {
		return err
	}
	if err := s.join(i, fd); err != nil {
		closeAll(fd)
		return err
	}
	datagram := make([]byte, headerBytes)
	putHeader(datagram, s.key, knock, uint64(i))
	for end := time.Now().Add(knockLimit); time.Now().Before(end); {
		_, _ = send(fd, datagram) // a lost datagram is sent again
		select {
		case a, ok := <-s.client.answers:
			return s.joined(i, a, ok)
		case <-time.After(wakeInterval):
		}
	}
	return fmt.Errorf(
		"%w over UDP at %v: no datagram arrived within %v, though TCP works",
		ErrUnreachable, s.client.udp, knockLimit)
}

// joined checks the server's answer to a knock.
func (s *session) joined(i int, a answer, ok bool) error {
	switch {
	case !ok:
		return fmt.Errorf("%v: %w", s.client.tcp, ErrGone)
	case a.Joined == nil || *a.Joined != i:
		return fmt.Errorf("%v: %w: stream %d did not join: %.200s", s.client.tcp, ErrRefused, i, plain.Line(a.Error))
	default:
		return nil
	}
}

// begin starts both sides.
func (s *session) begin() error {
	if err := s.client.jsonConn.write(request{Op: opBegin}); err != nil {
		return fmt.Errorf("%v: %w: %w", s.client.tcp, ErrGone, err)
	}
	if !s.plan.Echo {
		s.side.begin()
	}
	return nil
}

// finish ends both sides, and returns the server's results.
func (s *session) finish() (final, error) {
	s.stopSending()
	if err := s.client.jsonConn.write(request{Op: opEnd, Sent: s.sent()}); err != nil {
		return final{}, fmt.Errorf("%v: %w: %w", s.client.tcp, ErrGone, err)
	}
	a, err := s.client.answer(replyLimit)
	if err != nil {
		return final{}, err
	}
	if a.Final == nil {
		return final{}, fmt.Errorf("%v: %w: it did not end the session", s.client.tcp, ErrForeign)
	}
	s.awaitArrival(a.Final.Sent)
	s.endSession()
	return *a.Final, s.err()
}
