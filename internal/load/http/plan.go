package http

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load"
)

// The bounds of what a client may be asked for.
const (
	maxConnections = 10_000
	maxRequests    = 1_000_000_000
	maxRepeat      = 100
	maxRate        = 1_000_000
	maxTime        = time.Hour
	maxPath        = 4096
)

// A Plan is what a client does.
type Plan struct {
	Connections int
	Requests    int64         // how many are sent; 0 = for as long as Time
	Repeat      int           // how often these are sent at most, each time once all before were answered
	Time        time.Duration // for how long requests are sent, or at each rate of a ramp; or after how long they are not sent again
	Rate        int64         // requests per second; 0 = each as soon as a connection is free
	Ramp        bool          // from Rate up, for as long as the objective holds
	Objective   time.Duration // what Percentile of the times must not exceed
	Percentile  float64
	KeepAlive   bool
	Warmup      time.Duration
	Timeout     time.Duration
}

// Read reads the options of the load that a workload passes on as they are.
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

// Valid is the rule for each option by itself; see load.Valid.
func Valid(a *load.Args) error {
	_, err := Read(a)
	return errors.Join(err, a.Err())
}

// Check says which options contradict one another.
func (p *Plan) Check() error {
	switch {
	case p.Ramp && p.Requests > 0:
		return errors.New("ramp and requests: a ramp tries each rate for a time: leave requests out")
	case p.Rate > 0 && p.Requests > 0 && !p.Ramp:
		return errors.New("rate and requests: together they are a time: say rate and time")
	case p.Repeat > 1 && p.Requests == 0:
		return errors.New("repeat: what is sent again is a number of requests: give requests, or leave repeat out")
	case p.Ramp && 2*p.Objective > p.Time:
		return fmt.Errorf("objective %v: each rate is tried for %v, and a queue that long would not be seen: want a time of at least twice the objective", p.Objective, p.Time)
	case p.Ramp && p.Objective >= p.Timeout:
		return fmt.Errorf("objective %v: a request that takes %v has failed already: want a lower one, or a longer timeout", p.Objective, p.Timeout)
	default:
		return nil
	}
}

// open tells whether requests are sent when they are due.
func (p *Plan) open() bool { return p.Rate > 0 }

// A Target is what is asked for, and of whom.
type Target struct {
	At     netip.AddrPort
	Path   string
	Host   string
	expect int64         // bytes that the body has; -1 = whatever the first answer has
	wait   time.Duration // for the first good answer, before anything is measured; 0 = not at all
	cpus   []int         // one for each thread; empty = one thread, anywhere
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

// CheckPath says why a path cannot be asked for.
func CheckPath(path string) error {
	if !strings.HasPrefix(path, "/") || len(path) > maxPath || !isWord(path) {
		return fmt.Errorf("want a path of printable characters without blanks that begins with /, of at most %d bytes", maxPath)
	}
	return nil
}

// isWord tells whether a text has no blank and nothing that would end a line.
func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// request is what is sent each time.
func (t *Target) request(keepAlive bool) []byte {
	connection := ""
	if !keepAlive {
		connection = "Connection: close\r\n"
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tare\r\nAccept: */*\r\n%s\r\n", t.Path, t.Host, connection)
}
