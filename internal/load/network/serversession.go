package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// A serverSession is the server's side of a control connection.
type serverSession struct {
	server   *Server
	jsonConn *jsonConn
}

// run serves sessions until the client disconnects or breaks the protocol.
func (t *serverSession) run() {
	for {
		err := t.session()
		if err == nil {
			continue
		}
		if !isClosed(err) {
			_ = t.jsonConn.write(answer{Error: err.Error()}) // the client may have gone
		}
		return
	}
}

// session serves one session.
func (t *serverSession) session() error {
	r, err := t.next(maxTime, opOpen)
	if err != nil {
		return err
	}
	if err := r.Plan.check(); err != nil {
		return err
	}
	s, err := t.open(*r.Plan)
	if err != nil {
		return err
	}
	defer s.endSession()
	err = t.awaitStreams(s)
	if closing := t.server.admitTo(nil); err != nil || closing != nil {
		return errors.Join(err, closing)
	}
	if _, err := t.next(replyLimit, opBegin); err != nil {
		return err
	}
	return t.work(s)
}

// next reads a request, which must be one of ops.
func (t *serverSession) next(limit time.Duration, ops ...string) (request, error) {
	var r request
	if err := t.jsonConn.setReadLimit(limit); err != nil {
		return r, err
	}
	if err := t.jsonConn.read(&r); err != nil {
		return r, err
	}
	if !slices.Contains(ops, r.Op) {
		return r, fmt.Errorf("request %.20q: want %s", r.Op, strings.Join(ops, ", "))
	}
	return r, nil
}

// open makes a session that streams may join.
func (t *serverSession) open(p plan) (*side, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	var cpus []int
	if p.Pin {
		cpus = serverCPUs(affinity.Allowed(), p.count())
	}
	s := newSide(p, key, true, cpus)
	if err := t.server.admitTo(s); err != nil {
		return nil, err
	}
	if err := t.jsonConn.write(answer{Key: key, CPUs: cpus}); err != nil {
		return nil, errors.Join(err, t.server.admitTo(nil)) // otherwise no other client could open a session
	}
	return s, nil
}

// newKey draws the key of a session.
func newKey() (uint64, error) {
	var b [8]byte
	if _, err := unix.Getrandom(b[:], 0); err != nil {
		return 0, fmt.Errorf("getrandom: %w", err)
	}
	return binary.BigEndian.Uint64(b[:]), nil
}

// awaitStreams waits until every stream has joined.
func (t *serverSession) awaitStreams(s *side) error {
	for end := time.Now().Add(joinLimit); ; {
		missing := t.server.unjoinedStream(s)
		if missing < 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("stream %d did not join within %v", missing, joinLimit)
		}
		if s.plan.Protocol == tcp {
			time.Sleep(time.Millisecond)
			continue
		}
		if err := t.receiveKnock(s); err != nil {
			return err
		}
	}
}

func (s *Server) unjoinedStream(session *side) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.unjoinedStream()
}

// receiveKnock receives one datagram on the server's port; a knock joins a stream.
func (t *serverSession) receiveKnock(s *side) error {
	buffer := make([]byte, headerBytes+1)
	n, peer, err := unix.Recvfrom(t.server.udp, buffer, 0)
	if err != nil {
		return ignoreAgain(err)
	}
	number, index, ok := header(buffer[:n], s.key)
	if !ok || number != knock || index >= uint64(len(s.flows)) || s.flows[index] != nil {
		return nil // a foreign datagram, or a repeated knock
	}
	fd, err := peerSocket(t.server.bound, peer)
	if err != nil {
		return err
	}
	i := int(index)
	if err := s.join(i, fd); err != nil {
		closeAll(fd)
		return err
	}
	return t.jsonConn.write(answer{Joined: &i})
}

func ignoreAgain(err error) error {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// work runs a session until its end.
func (t *serverSession) work(s *side) error {
	s.begin()
	told := make(chan error, 1)
	if s.plan.Turns {
		told <- nil
	} else {
		go func() { told <- t.window(s) }()
	}
	r, err := t.turns(s)
	if err != nil {
		s.endSession()
		return errors.Join(err, <-told)
	}
	s.stopSending()
	s.awaitArrival(r.Sent)
	s.endSession()
	if err := errors.Join(<-told, s.err()); err != nil {
		return err
	}
	return t.jsonConn.write(answer{Final: &final{Sent: s.sent(), Tally: sum(s.flows)}})
}

// turns does what the client asks for until the end of the session, and returns that request.
func (t *serverSession) turns(s *side) (request, error) {
	for {
		r, err := t.next(s.plan.Warmup+s.plan.Time+maxTime, opEnd, opSend, opCount, opRest)
		switch {
		case err != nil || r.Op == opEnd:
			return r, err
		case !s.plan.Turns:
			return r, fmt.Errorf("request %.20q: the session has no turns", r.Op)
		case r.Op == opSend:
			s.resting.open()
		case r.Op == opRest:
			s.resting.shut()
		case r.Op == opCount:
			w := s.counts()
			if err := t.jsonConn.write(answer{Window: &w}); err != nil {
				return r, err
			}
		}
	}
}

// window sends the client the server's counts of the measured time.
func (t *serverSession) window(s *side) error {
	if s.plan.Echo {
		return nil
	}
	w, ok := s.measure()
	if !ok {
		return nil
	}
	return t.jsonConn.write(answer{Window: &w})
}
