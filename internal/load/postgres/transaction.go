package postgres

import (
	"errors"
	"fmt"
	"time"
)

// ErrLost is wrapped by the error of a load whose server has closed a connection.
var ErrLost = errors.New("the connection to the server was lost: look into the server's log")

// begin begins a transaction, which was due at origin.
func (w *worker) begin(s *session, origin time.Duration) {
	w.Busy++
	w.tally.begun++
	s.origin = origin
	s.random.draw(w.plan.scale, &s.values)
	if s.phase == closed {
		w.connect(s)
		return
	}
	w.execute(s)
}

// execute sends the first statement of a transaction.
func (w *worker) execute(s *session) {
	s.phase, s.current, s.began = running, 0, w.Now
	w.send(s)
}

// send sends the current statement.
func (w *worker) send(s *session) {
	one := &w.plan.script.statements[s.current]
	s.out = s.out[:0]
	if w.plan.each && !one.simple {
		s.out = appendParse(s.out, one.name, one.sql)
	}
	s.out = one.appendTo(s.out, &s.values)
	s.rows, s.tag, s.refused, s.messages, s.sent = 0, s.tag[:0], nil, 0, w.Now
	if _, err := s.stream.Write(s.out); err != nil {
		w.lost(s, err)
	}
}

// connected goes on after the login.
func (w *worker) connected(s *session) {
	w.tally.connect.Add(w.Now - s.opened)
	if w.plan.each {
		w.execute(s)
		return
	}
	s.phase, s.sent = preparing, w.Now
	if _, err := s.stream.Write(w.prepare); err != nil {
		w.lost(s, err)
	}
}

// refuse keeps an error of the server.
func (s *session) refuse(m message) error {
	e, err := parseError(m.body)
	if err != nil {
		return err
	}
	if e.ends() || s.phase != running {
		return e
	}
	s.refused = e
	return nil
}

// ready goes on when the server has ended a statement.
func (w *worker) ready(s *session) error {
	switch s.phase {
	case preparing:
		s.phase = idle
		w.Free.Push(s.key)
		return nil
	case rollingBack:
		return w.finish(s)
	}
	if s.refused != nil {
		return w.refused(s)
	}
	all := w.plan.script.statements
	if err := s.check(&all[s.current]); err != nil {
		return err
	}
	if s.origin >= w.Schedule.CountFrom {
		w.tally.statements[s.current].Add(w.Now - s.sent)
	}
	if s.current++; s.current < len(all) {
		w.send(s)
		return nil
	}
	w.record(s)
	return w.finish(s)
}

// check returns an error unless a statement has done what it is there for.
func (s *session) check(one *statement) error {
	tag, _, _ := cutString(s.tag)
	if s.rows == one.rows && tag == one.tag {
		return nil
	}
	return fmt.Errorf("%q with aid %d, tid %d, bid %d returned %d rows and %.80q, want %d and %q: "+
		"do pgbench's tables have the scale of this load?",
		one.sql, s.values[aid], s.values[tid], s.values[bid], s.rows, tag, one.rows, one.tag)
}

// refused counts a transaction that the server has refused, and rolls it back if it is still open. It is an error
// if others would fare no better.
func (w *worker) refused(s *session) error {
	if s.refused.isTrouble() {
		return s.refused
	}
	w.tally.refuse(s.refused, s.origin >= w.Schedule.CountFrom)
	if s.state == outsideTransaction {
		return w.finish(s)
	}
	s.phase, s.sent = rollingBack, w.Now
	if _, err := s.stream.Write(rollback); err != nil {
		w.lost(s, err)
	}
	return nil
}

var rollback = appendMessage(nil, toQuery, "ROLLBACK\x00")

// finish ends a transaction.
func (w *worker) finish(s *session) error {
	if s.state != outsideTransaction {
		return protocolError("a transaction is still open after its end")
	}
	w.Busy--
	if !w.plan.each {
		s.phase = idle
		w.Free.Push(s.key)
		return nil
	}
	// The side that closes first keeps its port in TIME_WAIT for a minute, and the client would run
	// out of ports. So it says goodbye, and waits until the server has closed.
	s.phase, s.sent = ending, w.Now
	if _, err := s.stream.Write(goodbye); err != nil {
		w.lost(s, err)
	}
	return nil
}

var goodbye = appendMessage(nil, toTerminate, "")

// record counts a transaction that has ended well, with its times.
func (w *worker) record(s *session) {
	w.tally.committed++
	w.tally.delta += s.values[delta]
	w.Turn.Did(1)
	took := w.Now - s.began
	if w.Schedule.Open() {
		took = w.Now - s.origin
	}
	counts := s.origin >= w.Schedule.CountFrom
	if counts {
		w.tally.good++
		w.tally.time.Add(took)
	}
	if counts && w.Now <= w.Schedule.Until || !counts && w.Schedule.Overlaps(w.Now) {
		w.tally.timely++
		w.tally.endedAt(w.Now-w.Schedule.CountFrom, took)
	}
}
