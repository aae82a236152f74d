package postgres

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/turn"
)

// What a server sends: that it has accepted a client, that the statement is prepared, and the answer
// to a select.
const (
	accepted = "R\x00\x00\x00\x08\x00\x00\x00\x00" + readyIdle
	parsed   = "1\x00\x00\x00\x04" + readyIdle
	answered = "2\x00\x00\x00\x04" + oneRow + "C\x00\x00\x00\x0dSELECT 1\x00" + readyIdle

	readyIdle = "Z\x00\x00\x00\x05I"
	oneRow    = "D\x00\x00\x00\x0b\x00\x01\x00\x00\x00\x010"
	notice    = "N\x00\x00\x00\x04"
)

// scripted is a server that answers what it reads with the given texts, one after the other, and then
// closes the connection, or is silent.
func scripted(t *testing.T, closes bool, answers ...string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nobody connects any more
	go func() {
		c, err := l.Accept()
		if err != nil {
			return // the test has ended
		}
		buffer := make([]byte, 64<<10)
		for _, answer := range answers {
			if _, err := c.Read(buffer); err != nil {
				break // the client has what it needs
			}
			if _, err := c.Write([]byte(answer)); err != nil {
				break // as above
			}
		}
		for !closes {
			if _, err := c.Read(buffer); err != nil {
				break // the client has closed
			}
		}
		_ = c.Close() // it is a test's
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// A server that is broken, or is another one, is an error that says so, at once.
func TestHostileServers(t *testing.T) {
	then := func(answer string) []string { return []string{accepted, parsed, answer} }
	for name, test := range map[string]struct {
		closes  bool
		answers []string
		want    string
	}{
		"another protocol":  {false, []string{"HTTP/1.1 400 Bad Request\r\n\r\n"}, "is it a PostgreSQL server?"},
		"closes at once":    {true, []string{""}, "connection to the server was lost"},
		"closes later":      {true, then(answered), "connection to the server was lost"},
		"silent":            {false, then(answered), "has not answered within 200ms"},
		"silent at login":   {false, nil, "has not answered within 200ms"},
		"half a message":    {false, then(answered[:20]), "has not answered within 200ms"},
		"an endless one":    {false, then("D\x7f\xff\xff\xff"), "a message of kind 'D'"},
		"no row":            {false, then(strings.Replace(answered, oneRow, "", 1)), "returned 0 rows"},
		"two rows":          {false, then(strings.Replace(answered, oneRow, oneRow+oneRow, 1)), "returned 2 rows"},
		"no confirmation":   {false, then(oneRow + readyIdle), `and "", want 1 and "SELECT 1"`},
		"left open":         {false, then(answered[:len(answered)-1] + "T"), "still open after its end"},
		"a wrong state":     {false, then(answered[:len(answered)-1] + "?"), "wrong ReadyForQuery"},
		"asks to copy":      {false, then("G\x00\x00\x00\x04"), "kind 'G' during a transaction"},
		"ready twice":       {false, []string{accepted, parsed + readyIdle}, "kind 'Z' during"},
		"a flood":           {false, then(strings.Repeat(notice, 2*maxMessages)), "more than 10000 messages"},
		"an empty error":    {false, then("E\x00\x00\x00\x05\x00"), "an error without severity"},
		"wants a password":  {false, []string{"R\x00\x00\x00\x08\x00\x00\x00\x03"}, ErrPassword.Error()},
		"a fatal statement": {false, then("E\x00\x00\x00\x18SFATAL\x00C57P01\x00Mend\x00\x00"), "FATAL: end"},
	} {
		t.Run(name, func(t *testing.T) {
			target := target{answerTime: 200 * time.Millisecond}
			target.Address = scripted(t, test.closes, test.answers...)
			_, err := target.observe(&plan{script: scriptOf(SelectOnly), scale: 1, clients: 1, time: 2 * time.Second})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// A broken stream is one whose other side has gone.
type brokenStream struct{}

func (brokenStream) Read([]byte) (int, error)  { return 0, io.EOF }
func (brokenStream) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// answering is a worker with one session that waits for the answer to its only statement.
func answering(t *testing.T, p *plan) (*worker, *session) {
	t.Helper()
	p.script = scriptOf(SelectOnly)
	thread, err := client.New(1, checkInterval, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(thread.Poll.Close)
	thread.Turn, thread.Busy, thread.Now = (*turn.Stage)(nil).Clock(time.Time{}), 1, 30*time.Millisecond
	thread.Schedule = client.Times{Warmup: 20 * time.Millisecond, Time: time.Second}.Schedule(0, 1, 0)
	w := &worker{Thread: thread, plan: p, tally: newTally(p), stop: &atomic.Bool{}}
	return w, &session{phase: running, stream: brokenStream{}, socket: stream{fd: -1}, sent: 25 * time.Millisecond}
}

// What a server sends after a connection has ended is not read.
func TestAnswersAfterTheEnd(t *testing.T) {
	w, s := answering(t, &plan{each: true})
	s.in = []byte(answered + readyIdle)
	s.filled = len(s.in)
	if w.take(s); w.err != nil || s.phase != closed || w.tally.committed != 1 {
		t.Errorf("error %v, phase %d, %d transactions; want a closed session with 1", w.err, s.phase, w.tally.committed)
	}
}

// The statements of a transaction from the warm-up are not timed.
func TestStatementsOfWarmup(t *testing.T) {
	for origin, want := range map[time.Duration]int64{10 * time.Millisecond: 0, 21 * time.Millisecond: 1} {
		w, s := answering(t, &plan{})
		s.origin, s.in = origin, []byte(answered)
		s.filled = len(s.in)
		if w.take(s); w.err != nil || w.tally.statements[0].Count() != want || w.tally.committed != 1 {
			t.Errorf("begun at %v: error %v, %d statements; want %d", origin, w.err, w.tally.statements[0].Count(), want)
		}
	}
}

// What no other transaction would escape ends the load; what concerns one transaction is counted.
func TestTrouble(t *testing.T) {
	for code, want := range map[string]bool{
		"53100": true, "53200": true, "58030": true, "XX001": true, CodeSerialization: false, CodeDeadlock: false,
		"23514": false, "57014": false,
	} {
		e, err := parseError([]byte("VERROR\x00C" + code + "\x00Mno\x00\x00"))
		if err != nil || e.isTrouble() != want {
			t.Errorf("%s: trouble is %v, want %v; %v", code, !want, want, err)
		}
	}
}
