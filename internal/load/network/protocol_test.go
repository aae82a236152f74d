package network

import (
	"errors"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/text/plain"
)

const testToken = "a-token-of-a-test_0123"

func TestHello(t *testing.T) {
	for _, h := range []hello{
		{Version, testToken, nil},
		{Version, testToken, &streamID{0xfeed, 3}},
	} {
		got, err := parseHello(h.String())
		if diff := cmp.Diff(h, got, cmp.AllowUnexported(hello{}, streamID{})); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", h, err, diff)
		}
	}
	for _, line := range []string{
		"", "GET / HTTP/1.1", "tare-net", "tare-net x", "tare-net 0 T control", "tare-net 1",
		"tare-net 1 T", "tare-net 1 T listen",
		"tare-net 1 T control more", "tare-net 1 T stream", "tare-net 1 T stream zz 1",
		"tare-net 1 T stream 1 x", "tare-net 1  T control",
	} {
		if h, err := parseHello(line); err == nil {
			t.Errorf("%q was taken for %v", line, h)
		}
	}
}

func TestAdmit(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		says string // "" = admitted
	}{
		"right":           {hello{Version, testToken, nil}.String(), ""},
		"other token":     {hello{Version, testToken + "x", nil}.String(), "token"},
		"shorter token":   {hello{Version, testToken[1:], nil}.String(), "token"},
		"another version": {"tare-net 2 in words that nobody knows yet", "version 1, the client 2"},
	} {
		h, err := parseHello(test.line)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = h.check(testToken)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestReply(t *testing.T) {
	for line, want := range map[string]error{
		replyTo(nil):                   nil,
		replyTo(errors.New("why")):     ErrRefused,
		"tare-net 2 refused: too old":  ErrRefused,
		"tare-net 2 ok":                ErrVersion,
		"tare-net 1 maybe":             ErrForeign,
		"tare-net ok":                  ErrForeign,
		"HTTP/1.1 400 Bad Request":     ErrForeign,
		"":                             ErrForeign,
		"tare-net 1 refused: \x1b[31m": ErrRefused,
		"tare-net 1 refused: \u202egnp.exe\u200b\u2066\n\u009b2J": ErrRefused,
	} {
		err := parseReply(line)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", line, err, want)
		}
		if err != nil && strings.ContainsFunc(err.Error(), plain.IsHidden) {
			t.Errorf("%q: a terminal would obey %q", line, err)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add("tare-net 1 T control")
	f.Add("tare-net 1 refused: \u202egnp.exe\u200b\u2066\x1b[2J")
	f.Add("tare-net 1 T stream 00000000000000ff 7")
	f.Fuzz(func(t *testing.T, line string) {
		if err := parseReply(line); errors.Is(err, ErrRefused) && strings.ContainsFunc(err.Error(), plain.IsHidden) {
			t.Errorf("%q: a terminal would obey %q", line, err)
		}
		if parseReply(line) == nil && line != replyTo(nil) && !strings.HasSuffix(line, " "+helloOK) {
			t.Errorf("%q is an ok", line)
		}
		h, err := parseHello(line)
		if err != nil || h.version != Version {
			return
		}
		if again, err := parseHello(h.String()); err != nil ||
			!cmp.Equal(h, again, cmp.AllowUnexported(hello{}, streamID{})) {
			t.Errorf("%q: %v, then %v and %v", line, h, again, err)
		}
	})
}

func TestPlanIsChecked(t *testing.T) {
	good := plan{Protocol: udp, Streams: 2, Direction: both, Size: 1440, Time: time.Second}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*plan){
		"protocol":          func(p *plan) { p.Protocol = "sctp" },
		"no stream":         func(p *plan) { p.Streams = 0 },
		"too many streams":  func(p *plan) { p.Streams = maxStreams + 1 },
		"no room for words": func(p *plan) { p.Size = headerBytes - 1 },
		"datagram too long": func(p *plan) { p.Size = maxDatagram + 1 },
		"write too long":    func(p *plan) { p.Protocol, p.Size = tcp, maxSize+1 },
		"direction":         func(p *plan) { p.Direction = "sideways" },
		"rate":              func(p *plan) { p.Rate = -1 },
		"no time":           func(p *plan) { p.Time = 0 },
		"too much time":     func(p *plan) { p.Warmup = maxTime + 1 },
	} {
		p := good
		change(&p)
		if p.check() == nil {
			t.Errorf("%s: %+v was taken", name, p)
		}
	}
	if (*plan)(nil).check() == nil {
		t.Error("no plan was taken")
	}
}

func TestDirections(t *testing.T) {
	for direction, want := range map[string][]bool{
		up: {true, true}, down: {false, false}, both: {true, false, true, false},
	} {
		p := plan{Streams: 2, Direction: direction}
		var got []bool
		for i := range p.count() {
			got = append(got, p.clientSends(i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", direction, diff)
		}
	}
}

// Jitter after RFC 3550, A.8, worked out by hand: J += (|D| - J) / 16.
func TestArrivals(t *testing.T) {
	type datagram struct {
		number        uint64
		sent, arrived int64
	}
	for name, test := range map[string]struct {
		came []datagram
		want arrivals
	}{
		"evenly":    {[]datagram{{0, 0, 500}, {1, 100, 600}, {2, 200, 700}}, arrivals{received: 3, next: 3, transit: 500}},
		"one late":  {[]datagram{{0, 0, 500}, {1, 100, 760}, {2, 200, 700}}, arrivals{received: 3, next: 3, transit: 500, jitter: 10 + (160-10)/16.0}},
		"one lost":  {[]datagram{{0, 0, 500}, {2, 200, 700}}, arrivals{received: 2, next: 3, transit: 500}},
		"swapped":   {[]datagram{{0, 0, 0}, {2, 0, 0}, {1, 0, 0}, {3, 0, 0}}, arrivals{received: 4, reordered: 1, next: 4}},
		"no clocks": {[]datagram{{0, 1 << 60, -(1 << 60)}}, arrivals{received: 1, next: 1, transit: -(1 << 61)}},
	} {
		var got arrivals
		for _, d := range test.came {
			got.add(d.number, d.sent, d.arrived)
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(arrivals{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What comes over the network is counted only if it belongs to the session, and
// nothing that comes does harm.
func FuzzDatagrams(f *testing.F) {
	const key, size = 0x0102030405060708, 48
	good := make([]byte, 2*size)
	putHeader(good, key, 0, 5)
	putHeader(good[size:], key, 1, 6)
	f.Add(good, int64(9))
	f.Add(good[:30], int64(0))
	f.Fuzz(func(t *testing.T, p []byte, now int64) {
		s := newSide(plan{Protocol: udp, Streams: 1, Direction: up, Size: size}, key, true, nil)
		one := &flow{}
		s.count(one, p, now)
		if most := int64(len(p)); one.bytes.Load() > most || one.arrivals.received > uint64(most/headerBytes) {
			t.Errorf("%d bytes, %d datagrams in %d bytes", one.bytes.Load(), one.arrivals.received, most)
		}
		if len(p) >= headerBytes && string(p[:8]) != string(good[:8]) && one.arrivals.received > uint64(len(p)/size) {
			t.Errorf("a stranger's datagram was counted")
		}
	})
}

func TestTempo(t *testing.T) {
	slow, fast := newSendRate(1000, 100), newSendRate(144_000_000, 1440)
	if got := slow.dueTime(30); got != 3*time.Second {
		t.Errorf("the 30th of ten a second is due after %v", got)
	}
	if got := slow.batch(64); got != 1 {
		t.Errorf("ten a second are sent %d at once", got)
	}
	if got := fast.batch(64); got != 64 {
		t.Errorf("a hundred in a millisecond are sent %d at once", got)
	}
	if got := newSendRate(0, 1440); got.dueTime(1<<40) != 0 || got.batch(7) != 7 {
		t.Errorf("as fast as possible: %v", got)
	}
}

func TestCPUs(t *testing.T) {
	for name, test := range map[string]struct {
		server, client []int // allowed
		threads        int
		serves, asks   []int
		alone          bool
	}{
		"two":           {[]int{0, 1}, []int{0, 1}, 1, []int{1}, []int{0}, true},
		"one":           {[]int{0}, []int{0}, 1, []int{0}, []int{0}, false},
		"confined":      {[]int{0}, []int{0, 1}, 1, []int{0}, []int{1}, true},
		"same one":      {[]int{1}, []int{1}, 2, []int{1}, []int{1}, false},
		"four streams":  {[]int{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}, 4, []int{3, 4, 5}, []int{0, 1, 2}, true},
		"nobody tells":  {nil, nil, 1, nil, nil, true},
		"apart already": {[]int{4, 5}, []int{0, 1}, 1, []int{5}, []int{0}, true},
	} {
		serves := serverCPUs(test.server, test.threads)
		asks, alone := clientCPUs(test.client, serves, test.threads)
		if len(serves) != len(test.serves) || len(asks) != len(test.asks) || alone != test.alone ||
			len(serves) > 0 && !cmp.Equal(serves, test.serves) || len(asks) > 0 && !cmp.Equal(asks, test.asks) {
			t.Errorf("%s: %v and %v, alone %t", name, serves, asks, alone)
		}
	}
}

func TestClientBound(t *testing.T) {
	busy := func(share float64) window {
		return window{Elapsed: time.Second, CPU: time.Duration(share * float64(time.Second))}
	}
	for name, test := range map[string]struct {
		client, server float64
		threads        int
		want           bool
	}{
		"client full":  {1, 0.5, 1, true},
		"both full":    {1, 0.98, 1, false},
		"server full":  {0.6, 1, 1, false},
		"two of three": {2, 1, 3, false},
		"all of three": {2.9, 1, 3, true},
	} {
		o := outcome{client: busy(test.client), server: busy(test.server), threads: test.threads}
		if got := o.clientBound(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A client that has gone before it hears of its session keeps nobody else out.
func TestClientThatGoesAtOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	s := &Server{}
	gone := &serverSession{server: s, jsonConn: &jsonConn{file: w}}
	if _, err := gone.open(plan{Protocol: tcp, Streams: 1, Direction: up}); err == nil {
		t.Fatal("told of a session on a connection that is closed")
	}
	if err := s.admitTo(&side{}); err != nil {
		t.Errorf("the next client: %v", err)
	}
}

// A thread that has done its work stays, with what the kernel counted for it, and
// may run anywhere again.
func TestThreadsStay(t *testing.T) {
	all := affinity.Allowed()
	if len(all) == 0 {
		t.Skip("nobody tells on which CPUs this process may run")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // which a pool switches off
	c := &pool{cpus: all[:1]}
	threads := make([]int, 3)
	var here sync.WaitGroup
	here.Add(len(threads))
	var works []func()
	for i := range threads {
		works = append(works, func() {
			threads[i] = unix.Gettid()
			here.Done()
			here.Wait()
		})
	}
	c.start(works...)
	c.end()
	for _, id := range threads {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(id, &set); err != nil || set.Count() != len(all) {
			t.Errorf("thread %d: on %d CPUs of %d, %v", id, set.Count(), len(all), err)
		}
	}
}
