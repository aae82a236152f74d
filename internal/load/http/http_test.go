package http_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/load/loadtest"
)

// An answerScript is how a server answers the nth request of a connection, from 0; false
// closes it.
type answerScript func(c net.Conn, n int) bool

const page = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func always(text string) answerScript {
	return func(c net.Conn, _ int) bool {
		_, err := io.WriteString(c, text)
		return err == nil
	}
}

// serve answers by a script, and returns where.
func serve(t testing.TB, answer answerScript) string {
	t.Helper()
	return serveOn(t, new(net.Listener), answer)
}

// serveOn is serve, and tells what it listens on.
func serveOn(t testing.TB, on *net.Listener, answer answerScript) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	*on = l
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveScript(c, answer)
		}
	}()
	return l.Addr().String()
}

func serveScript(c net.Conn, answer answerScript) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for n := 0; ; n++ {
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				return
			}
		}
		if !answer(c, n) {
			return
		}
	}
}

func run(t testing.TB, addr string, words ...string) (*load.Report, error) {
	t.Helper()
	return http.Run(loadtest.Args(append([]string{"addr=" + addr, "warmup=0s"}, words...)...))
}

func mustRun(t testing.TB, addr string, words ...string) *load.Report {
	t.Helper()
	r, err := run(t, addr, words...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Line(); err != nil {
		t.Error(err)
	}
	return r
}

// A number of requests is sent, no more and no less, over as many connections as
// were asked for; repeated requests are sent on those, and all of them count.
func TestRequests(t *testing.T) {
	for name, test := range map[string]struct {
		words       []string
		connections int64
		keep        bool
		requests    float64
	}{
		"kept alive":                {[]string{"requests=100"}, 3, true, 100},
		"on two threads":            {[]string{"requests=100", "cpus=0,0"}, 3, true, 100},
		"each of its own":           {[]string{"requests=100", "keepalive=no"}, 100, false, 100},
		"repeated":                  {[]string{"requests=50", "repeat=4"}, 3, true, 200},
		"repeated on two threads":   {[]string{"requests=50", "repeat=4", "cpus=0,0"}, 3, true, 200},
		"repeated, each of its own": {[]string{"requests=50", "repeat=4", "keepalive=no"}, 200, false, 200},
	} {
		var connections, requests atomic.Int64
		addr := serve(t, func(c net.Conn, n int) bool {
			requests.Add(1)
			if n == 0 {
				connections.Add(1)
			}
			_, err := io.WriteString(c, page)
			return err == nil && test.keep
		})
		r := mustRun(t, addr, append(test.words, "connections=3")...)
		if float64(requests.Load()) != test.requests || connections.Load() != test.connections {
			t.Errorf("%s: %d requests on %d connections", name, requests.Load(), connections.Load())
		}
		if r.Values["http.requests"] != test.requests || r.Values["http.failed"] != 0 ||
			r.Facts["sent"] != fmt.Sprint(test.requests) {
			t.Errorf("%s: %v %v", name, r.Values, r.Facts)
		}
		if r.Values["http.document"] != 5 || r.Values["http.bytes"] != test.requests*float64(len(page)) {
			t.Errorf("%s: %v bytes, bodies of %v", name, r.Values["http.bytes"], r.Values["http.document"])
		}
		if r.Values["http.rate"] <= 0 || r.Values["http.elapsed"] <= 0 || !slices.Contains(r.Notes, http.NoteClosedLoop) {
			t.Errorf("%s: %v %v", name, r.Values, r.Notes)
		}
		for _, d := range []string{"http.time", "http.first_byte", "http.connect"} {
			if h, err := r.Distributions[d].Histogram(); err != nil ||
				d != "http.connect" && float64(h.Count()) != test.requests {
				t.Errorf("%s: %s: %v", name, d, err)
			}
		}
	}
}

// Failures of all rounds are added up, and a round without a good answer ends the rest.
func TestRepeatUntilItFails(t *testing.T) {
	var requests atomic.Int64
	addr := serve(t, func(c net.Conn, _ int) bool {
		if requests.Add(1) > 30 {
			return false
		}
		_, err := io.WriteString(c, page)
		return err == nil
	})
	_, err := run(t, addr, "connections=1", "requests=20", "repeat=9")
	if !errors.Is(err, http.ErrNoAnswer) || !strings.Contains(err.Error(), "it stopped in round 3 of at most 9") ||
		!strings.Contains(err.Error(), "30 good answers") {
		t.Errorf("%v", err)
	}
	if requests.Load() != 60 {
		t.Errorf("%d requests were sent in three rounds of 20", requests.Load())
	}
	requests.Store(0)
	r := mustRun(t, addr, "connections=1", "requests=20", "repeat=2")
	if r.Values["http.requests"] != 40 || r.Values["http.failed"] != 10 {
		t.Errorf("%v", r.Values)
	}
}

// The rate is that of all answers that come in the time, also to what was asked for
// before it began: two thirds of these are.
func TestRateOfSlowAnswers(t *testing.T) {
	const takes = 450 * time.Millisecond
	addr := serve(t, func(c net.Conn, _ int) bool {
		time.Sleep(takes)
		_, err := io.WriteString(c, page)
		return err == nil
	})
	r, err := http.Run(loadtest.Args("addr="+addr, "connections=4", "warmup=200ms", "time=1s"))
	if err != nil {
		t.Fatal(err)
	}
	if rate, truth := r.Values["http.rate"], 4/takes.Seconds(); rate < 0.75*truth || rate > 1.5*truth {
		t.Errorf("%v answers per second, want about %v", rate, truth)
	}
	if good := r.Values["http.requests"]; good != 8 && good != 12 {
		t.Errorf("%v requests count, want those of two or three rounds", good)
	}
}

// A server that goes away in the middle is given up, though it refuses at once.
func TestServerThatGoesAway(t *testing.T) {
	t.Parallel() // most of the time it waits
	for _, words := range [][]string{{"requests=100000"}, {"rate=20", "time=1m"}} {
		t.Run(words[0], func(t *testing.T) {
			t.Parallel() // as above
			var l net.Listener
			var answers atomic.Int64
			addr := serveOn(t, &l, func(c net.Conn, _ int) bool {
				if answers.Add(1) > 10 {
					_ = l.Close()
					return false
				}
				_, err := io.WriteString(c, page)
				return err == nil
			})
			if _, err := run(t, addr, append(words, "connections=1", "timeout=100ms")...); !errors.Is(err, http.ErrNoAnswer) {
				t.Error(err)
			}
		})
	}
}

// Connections are timed one by one, and not all together.
func TestConnectTimes(t *testing.T) {
	addr := serve(t, always(page))
	const connections = 200
	began := time.Now()
	r := mustRun(t, addr, fmt.Sprint("connections=", connections), "requests=200")
	if whole := time.Since(began).Seconds(); r.Values["http.connect.mean"] > whole/10 {
		t.Errorf("a connection took %v of the %v s of %d", r.Values["http.connect.mean"], whole, connections)
	}
}

// A server of which every answer is of something else may have been asked for the wrong
// thing; one that gives none has not.
func TestAdvice(t *testing.T) {
	for answer, want := range map[string]bool{
		page: true, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n": true, "?": false,
	} {
		addr := serve(t, func(c net.Conn, _ int) bool {
			_, err := io.WriteString(c, answer)
			return err == nil && want
		})
		_, err := run(t, addr, "requests=2", "connections=1", "expect=4")
		if !errors.Is(err, http.ErrNoAnswer) ||
			strings.HasSuffix(err.Error(), ": choose another path with option path") != want {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// Every way in which a server can be wrong is counted under its name, and never
// timed; the good answers between are.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		bad  string // in place of every second answer of a connection; empty = it closes
		kind string
	}{
		"closes early":            {"", "read"},
		"closes within an answer": {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", "read"},
		"another length":          {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", "length"},
		"more than it says":       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more", "length"},
		"garbage":                 {"\x16\x03\x01 what?\n", "read"},
		"endless head":            {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-More: and more\r\n", 100_000), "read"},
		"an error":                {"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "status"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(c net.Conn, n int) bool {
				if n%2 == 0 {
					return always(page)(c, n)
				}
				_, err := io.WriteString(c, test.bad)
				return err == nil && test.kind == "status"
			})
			r := mustRun(t, addr, "connections=1", "requests=20", "expect=5")
			h, err := r.Distributions["http.time"].Histogram()
			if err != nil || h.Count() != 10 || r.Values["http.failed"] != 10 || r.Values["http.failed."+test.kind] != 10 {
				t.Errorf("%v %v", err, r.Values)
			}
			if !strings.Contains(strings.Join(r.Notes, " "), http.NoteFailed) {
				t.Errorf("notes %v", r.Notes)
			}
		})
	}
}

// A server that is no use at all is an error that says why, within bounds.
func TestUselessServer(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for name, test := range map[string]struct{ addr, says string }{
		"nobody listens": {closed.Addr().String(), "connection refused"},
		"never answers":  {serve(t, func(net.Conn, int) bool { time.Sleep(time.Second); return false }), "timeout: "},
		"always fails":   {serve(t, always("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")), "status 404"},
	} {
		_, err := run(t, test.addr, "connections=2", "time=200ms", "timeout=50ms")
		if !errors.Is(err, http.ErrNoAnswer) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v does not say %q", name, err, test.says)
		}
	}
}

// A request is a failure once its time is up, also where the server goes on and
// on.
func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		pause time.Duration
	}{
		"slowly":                      {"x", time.Millisecond},
		"as fast as anybody can read": {strings.Repeat("x", 1<<20), 0},
	} {
		addr := serve(t, func(c net.Conn, n int) bool {
			if n == 0 {
				return always(page)(c, n)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := io.WriteString(c, test.text); err != nil {
					return false
				}
				time.Sleep(test.pause)
			}
		})
		r := mustRun(t, addr, "connections=1", "requests=6", "timeout=40ms")
		if r.Values["http.failed.timeout"] != 3 || r.Values["http.time.max"] > 0.04 {
			t.Errorf("%s: %v", name, r.Values)
		}
	}
}

// All threads want bodies of one length.
func TestLengthOfAllThreads(t *testing.T) {
	var connections atomic.Int64
	var lengths sync.Map // of each connection's bodies
	addr := serve(t, func(c net.Conn, n int) bool {
		if n == 0 {
			lengths.Store(c, connections.Add(1)%2+1)
		}
		length, _ := lengths.Load(c)
		return always(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s",
			length, strings.Repeat("x", int(length.(int64)))))(c, n)
	})
	r := mustRun(t, addr, "connections=2", "cpus=0,0", "requests=200")
	if n := r.Values["http.failed.length"]; n == 0 || n == 200 {
		t.Errorf("%v of 200 answers are of another length", n)
	}
}

// Who is asked seldom is not given up meanwhile.
func TestSeldom(t *testing.T) {
	t.Parallel() // it waits
	r := mustRun(t, serve(t, always(page)), "connections=4", "cpus=0,0,0,0", "rate=1", "time=5s", "timeout=1s")
	if r.Values["http.requests"] != 5 || r.Values["http.failed"] != 0 {
		t.Errorf("%v", r.Values)
	}
}

// What a stall does to requests that came meanwhile is seen in the open loop, and
// in the closed loop hardly.
func TestStall(t *testing.T) {
	const stall = 300 * time.Millisecond
	var began, until atomic.Int64
	addr := serve(t, func(c net.Conn, n int) bool {
		now := time.Now().UnixNano()
		if began.CompareAndSwap(0, now) {
			until.Store(now + int64(stall+200*time.Millisecond))
		}
		if left := until.Load() - now; left > 0 && left < int64(stall) {
			time.Sleep(time.Duration(left))
		}
		return always(page)(c, n)
	})
	open := mustRun(t, addr, "connections=4", "time=1s", "rate=2000")
	// 30 % of the requests are due while nothing answers, evenly spread.
	if p99 := open.Values["http.time.p99"]; p99 < 0.8*stall.Seconds() {
		t.Errorf("open loop: p99 %v with a stall of %v", p99, stall)
	}
	if v := open.Values["http.requests"]; v != 2000 {
		t.Errorf("open loop: %v requests of 2000", v)
	}
	began.Store(0)
	closed := mustRun(t, addr, "connections=4", "time=1s")
	if h, _ := closed.Distributions["http.time"].Histogram(); h.Count() > 1000 && closed.Values["http.time.p99"] > 0.1 {
		t.Errorf("closed loop: p99 %v of %d requests", closed.Values["http.time.p99"], h.Count())
	}
	if !strings.Contains(strings.Join(closed.Notes, " "), http.NoteClosedLoop) ||
		strings.Contains(strings.Join(open.Notes, " "), http.NoteClosedLoop) {
		t.Errorf("closed loop: %v; open loop: %v", closed.Notes, open.Notes)
	}
}

// A rate that the server cannot do is told, and so is the highest that it can.
func TestRamp(t *testing.T) {
	addr := serve(t, func(c net.Conn, n int) bool {
		time.Sleep(4 * time.Millisecond) // two connections: at most 500 per second
		return always(page)(c, n)
	})
	missed := mustRun(t, addr, "connections=2", "rate=2000", "time=300ms", "timeout=300ms")
	if !strings.Contains(strings.Join(missed.Notes, " "), http.NoteRateMissed) || missed.Values["http.rate"] > 600 ||
		missed.Values["http.offered"] != 2000 {
		t.Errorf("%v %v", missed.Notes, missed.Values)
	}
	r, err := run(t, addr, "connections=2", "ramp=yes", "rate=50", "objective=50ms", "time=100ms", "timeout=2s")
	switch {
	case err != nil && strings.Contains(err.Error(), "even 50"): // this machine is too busy even for that
	case err != nil:
		t.Error(err)
	case r.Values["http.highest"] < 50 || r.Values["http.highest"] != r.Values["http.offered"]:
		t.Errorf("highest rate %v", r.Values)
	}
	if _, err := run(t, addr, "connections=2", "ramp=yes", "rate=50", "objective=1ms", "time=200ms",
		"timeout=300ms"); err == nil || !strings.Contains(err.Error(), "even 50") {
		t.Errorf("%v", err)
	}
}

// The built-in server serves what is there, and nothing else.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"small": 1000, "large": 1_000_000, "empty": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r, err := http.Serve(loadtest.Args("root="+dir, "cpus=0,0"))
	if err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + r.Facts["port"]
	for name, size := range map[string]int{"small": 1000, "large": 1_000_000, "empty": 0} {
		for _, keepAlive := range []string{"yes", "no"} {
			r := mustRun(t, addr, "path=/"+name, "expect="+strconv.Itoa(size), "requests=50",
				"connections=5", "keepalive="+keepAlive)
			if r.Values["http.failed"] != 0 || r.Values["http.requests"] != 50 {
				t.Errorf("%s, kept alive %s: %v", name, keepAlive, r.Values)
			}
		}
	}
	for _, path := range []string{"/", "/link", "/../etc/passwd", "/missing"} {
		if _, err := run(t, addr, "path="+path, "requests=2"); err == nil || !strings.Contains(err.Error(), "status 404") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for request, want := range map[string]string{
		"POST /small HTTP/1.1\r\n\r\n":                      "HTTP/1.1 404",
		"GET /small HTTP/1.0\r\n\r\n":                       "HTTP/1.1 200",
		"GET /empty HTTP/1.1\r\nConnection: close\r\n\r\n":  "HTTP/1.1 200",
		"GET /" + strings.Repeat("x", 10_000) + " HTTP/1.1": "",
	} {
		if got := answer(t, addr, request); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%.40q: %.80q", request, got)
		}
	}
}

// answer sends a request and reads until the connection closes.
func answer(t *testing.T, addr, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		return ""
	}
	got, err := io.ReadAll(c)
	if err != nil && len(got) > 0 {
		t.Errorf("%.40q: %v", request, err)
	}
	return string(got)
}

func TestOptions(t *testing.T) {
	for words, says := range map[string]string{
		"addr=here":                                       "want ADDRESS:PORT",
		"addr=127.0.0.1:1 path=x":                         "begins with /",
		"addr=127.0.0.1:1 host=a\nb":                      "want a name",
		"addr=127.0.0.1:1 cpus=x":                         "not a list of CPUs",
		"addr=127.0.0.1:1 rate=5 requests=5":              "rate and requests",
		"addr=127.0.0.1:1 ramp=yes requests=5":            "ramp and requests",
		"addr=127.0.0.1:1 repeat=2":                       "set requests, or leave repeat out",
		"addr=127.0.0.1:1 repeat=2 rate=5":                "set requests, or leave repeat out",
		"addr=127.0.0.1:1 repeat=101 requests=5":          "repeat",
		"addr=127.0.0.1:1 ramp=yes time=15ms":             "twice the objective",
		"addr=127.0.0.1:1 ramp=yes objective=60s time=5m": "requests already fail after",
		"addr=127.0.0.1:1 connections=0":                  "connections",
		"addr=127.0.0.1:1 speed=1":                        "no option",
	} {
		if _, err := http.Run(loadtest.Args(strings.Split(words, " ")...)); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not say %q", words, err, says)
		}
	}
	if _, err := http.Serve(loadtest.Args("root=/no/such/directory")); err == nil {
		t.Error("it serves a directory that is not there")
	}
}
