package http

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/turn"
)

// The bounds of the options.
const (
	maxConnections = 10_000
	maxRequests    = 1_000_000_000
	maxRepeat      = 100
	maxRate        = 1_000_000
	maxTime        = time.Hour
	maxPath        = 4096
)

// A Plan says what a client does.
type Plan struct {
	Connections int
	Requests    int64         // number of requests; 0 = as many as fit into Time
	Repeat      int           // largest number of rounds of these requests; a round begins when the last one is answered
	Time        time.Duration // how long requests are sent, or each rate of a ramp is tried; no round begins after it
	Rate        int64         // requests per second; 0 = each as soon as a connection is free
	Ramp        bool          // increase the rate from Rate, as long as the objective holds
	Objective   time.Duration // limit of the Percentile of the times
	Percentile  float64
	KeepAlive   bool
	Warmup      time.Duration
	Timeout     time.Duration
}

// Read reads the options of the load that are also options of the workload.
func Read(a *load.Args) (Plan, error) {
	p := Plan{
		Connections: int(a.Int("connections", 16, 1, maxConnections)),
		Requests:    a.Int("requests", 0, 0, maxRequests),
		Repeat:      int(a.Int("repeat", 1, 1, maxRepeat)),
		Time:        a.Duration("time", 2*time.Second, 10*time.Millisecond, maxTime),
		Rate:        a.Int("rate", 0, 0, maxRate),
		Ramp:        a.Word("ramp", "no", "no", "yes") == "yes",
		Objective:   a.Duration("objective", 10*time.Millisecond, time.Microsecond, time.Minute),
		Percentile:  99,
		KeepAlive:   a.Word("keepalive", "yes", "yes", "no") == "yes",
		Warmup:      a.Duration("warmup", 200*time.Millisecond, 0, time.Minute),
		Timeout:     a.Duration("timeout", 5*time.Second, time.Millisecond, time.Minute),
	}
	switch a.Word("percentile", "99", "50", "90", "99", "99.9") {
	case "50":
		p.Percentile = 50
	case "90":
		p.Percentile = 90
	case "99.9":
		p.Percentile = 99.9
	}
	return p, nil
}

// Valid checks each option by itself; see load.Valid.
func Valid(a *load.Args) error {
	_, err := Read(a)
	return errors.Join(err, a.Err())
}

// Check returns which options contradict one another.
func (p *Plan) Check() error {
	switch {
	case p.Ramp && p.Requests > 0:
		return errors.New("ramp and requests cannot be combined: use ramp and time")
	case p.Rate > 0 && p.Requests > 0 && !p.Ramp:
		return errors.New("rate and requests cannot be combined: use rate and time")
	case p.Repeat > 1 && p.Requests == 0:
		return errors.New("repeat needs a number of requests: set requests, or leave repeat out")
	case p.Ramp && 2*p.Objective > p.Time:
		return fmt.Errorf(
			"objective %v: each rate is tried for %v, too short to see such a queue: use a time of at least "+
				"twice the objective",
			p.Objective, p.Time)
	case p.Ramp && p.Objective >= p.Timeout:
		return fmt.Errorf("objective %v: requests already fail after %v: use a lower objective, or a longer timeout",
			p.Objective, p.Timeout)
	default:
		return nil
	}
}

// TakesTurns reports whether nothing changes if the client rests now and then: not where
// requests are due at fixed times. The rounds of a number of requests are stages.
func (p *Plan) TakesTurns() bool {
	const few = 1000 // requests, which are sent before a turn is over
	return !p.open() && !p.Ramp && (p.Requests == 0 || p.Requests*int64(max(1, p.Repeat)) > few)
}

// uninterrupted is the plan of the stretch that nothing interrupts: a share of the rounds where there are
// enough of them, else of the requests.
func (p Plan) uninterrupted() Plan {
	p.Time /= load.StretchShare
	if p.Repeat >= load.StretchShare {
		p.Repeat /= load.StretchShare
	} else {
		p.Requests, p.Repeat = p.Requests/load.StretchShare, 1
	}
	return p
}

// open reports whether the loop is open: requests are sent when they are due.
func (p *Plan) open() bool { return p.Rate > 0 }

// times say when requests begin.
func (p *Plan) times() client.Times {
	return client.Times{Warmup: p.Warmup, Time: p.Time, Rate: p.Rate, Requests: p.Requests}
}

// A Target is the server and the path to request.
type Target struct {
	At     netip.AddrPort
	Path   string
	Host   string
	expect int64         // bytes of the body; -1 = as many as in the first answer
	turns  *turn.Page    // nil = the requests of a plan are sent in one go
	wait   time.Duration // how long to wait for a first good answer before measuring; 0 = do not wait
	cpus   []int         // one for each thread; empty = one thread on any CPU
}

func targetOf(a *load.Args) (t Target, err error) {
	text, list := a.Text("addr", ""), a.Text("cpus", "")
	t.Path, t.Host = a.Text("path", "/"), a.Text("host", "tare")
	t.expect = a.Int("expect", -1, -1, 1<<50)
	t.wait = a.Duration("wait", 0, 0, time.Minute)
	if t.At, err = netip.ParseAddrPort(text); err != nil {
		return t, fmt.Errorf("addr=%.80q: want ADDRESS:PORT of a server, such as 127.0.0.1:8080", text)
	}
	if t.cpus, err = affinity.Parse(list); err != nil {
		return t, fmt.Errorf("cpus=%.80q: %w", list, err)
	}
	if err := CheckPath(t.Path); err != nil {
		return t, fmt.Errorf("path=%.80q: %w", t.Path, err)
	}
	if !isWord(t.Host) {
		return t, fmt.Errorf("host=%.80q: want a name", t.Host)
	}
	return t, nil
}

// CheckPath returns why a path cannot be requested.
func CheckPath(path string) error {
	if !strings.HasPrefix(path, "/") || len(path) > maxPath || !isWord(path) {
		return fmt.Errorf(
			"want a path that begins with /, of printable characters without blanks, of at most %d bytes",
			maxPath)
	}
	return nil
}

// isWord reports whether a text has only printable ASCII characters without blanks.
func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// request returns the bytes of a request.
func (t *Target) request(keepAlive bool) []byte {
	connection := ""
	if !keepAlive {
		connection = "Connection: close\r\n"
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tare\r\nAccept: */*\r\n%s\r\n",
		t.Path, t.Host, connection)
}
