package trips_test

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/fleet/trips"
)

var (
	token    = []byte("0123456789abcdef")
	loopback = netip.MustParseAddrPort("127.0.0.1:0")
)

func listen(t *testing.T, at netip.AddrPort) netip.AddrPort {
	t.Helper()
	l, err := trips.Listen(at, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr()
}

// pair is a session in which node 0 meets a peer once, now.
func pair(peer netip.AddrPort) *trips.Session {
	return &trips.Session{
		Peers: []netip.AddrPort{{}, peer}, Token: token, Slot: 4 * time.Second, Network: pairs.Pod,
		Networks: []string{pairs.Pod}, Slots: [][][]pairs.Meeting{{{{Client: 0, Server: 1}}}},
	}
}

// once measures the only meeting at once: a quarter of its slot is over.
func once(ctx context.Context, s *trips.Session) []pairs.Trip {
	return s.Measure(ctx, 0, time.Now().Add(-s.Slot/4))
}

// one returns the only trip of a round, which was measured.
func one(t *testing.T, r []pairs.Trip) pairs.Trip {
	t.Helper()
	if len(r) != 1 || r[0].Seconds <= 0 || r[0].Within <= 0 || r[0].Lost != "" {
		t.Fatalf("got %+v, want one trip with a time and a clock", r)
	}
	return r[0]
}

// failure returns why the only trip of a round was lost.
func failure(t *testing.T, r []pairs.Trip) string {
	t.Helper()
	if len(r) != 1 || r[0].Seconds != 0 || r[0].Within != 0 || r[0].Lost == "" {
		t.Fatalf("got %+v, want one that is lost and nothing else", r)
	}
	return r[0].Lost
}

// warmUp is less than a meeting takes.
const warmUp = 50 * time.Millisecond

// All nodes of a fleet of three measure the same slots, each those in which it is the client.
func TestAllPairs(t *testing.T) {
	t.Parallel()
	slots := pairs.Slots(1, make([]string, 3), 1, 3)
	var peers []netip.AddrPort
	for range 3 {
		peers = append(peers, listen(t, loopback))
	}
	begin := time.Now()
	rounds := make([][]pairs.Trip, 3)
	var running sync.WaitGroup
	for node := range 3 {
		running.Go(func() {
			s := trips.Session{
				Self: node, Peers: peers, Token: token, Slots: slots, Slot: trips.MinSlot, Network: pairs.Pod,
				Networks: []string{pairs.Pod},
			}
			rounds[node] = s.Measure(t.Context(), 0, begin)
		})
	}
	running.Wait()
	met := make(map[pairs.Meeting]int)
	for node, r := range rounds {
		for _, trip := range r {
			met[trip.Meeting]++
			if trip.Client != node || trip.Seconds <= 0 || trip.Network != pairs.Pod {
				t.Errorf("node %d measured %+v", node, trip)
			}
			if trip.Within <= 0 || math.Abs(trip.Ahead) > trip.Within { // it is one clock
				t.Errorf("node %d: the clock of node %d is ahead by %v ± %v, which excludes 0", node, trip.Server, trip.Ahead,
					trip.Within)
			}
		}
	}
	for _, meetings := range slots[0] {
		for _, m := range meetings {
			if met[m] != 1 {
				t.Errorf("%v was measured %d times, want once", m, met[m])
			}
		}
	}
}

// relay stands between a client and the listener: change gets each datagram of the client or, with back, of the
// listener, and returns what is sent on.
func relay(t *testing.T, to netip.AddrPort, change func(p []byte, back bool) [][]byte) netip.AddrPort {
	t.Helper()
	near, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var client netip.AddrPort
	var mu sync.Mutex
	running.Go(func() {
		p := make([]byte, 1000)
		for {
			n, from, err := near.ReadFromUDPAddrPort(p)
			if err != nil {
				return
			}
			mu.Lock()
			client = from
			for _, q := range change(p[:n], false) {
				_, _ = far.Write(q) // what is lost is lost
			}
			mu.Unlock()
		}
	})
	running.Go(func() {
		p := make([]byte, 1000)
		for {
			n, err := far.Read(p)
			if err != nil {
				return
			}
			mu.Lock()
			for _, q := range change(p[:n], true) {
				_, _ = near.WriteToUDPAddrPort(q, client) // as above
			}
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_, _ = near.Close(), far.Close()
		running.Wait()
	})
	return near.LocalAddr().(*net.UDPAddr).AddrPort()
}

// A delay on one way is in the round trip and, half of it, in the difference of clocks, which says so.
func TestPlantedDelay(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Millisecond
	slow := relay(t, listen(t, loopback), func(p []byte, back bool) [][]byte {
		if !back {
			time.Sleep(delay)
		}
		return [][]byte{p}
	})
	r := one(t, once(t.Context(), pair(slow)))
	if r.Seconds < delay.Seconds() {
		t.Errorf("the round trip took %v s, want at least %v", r.Seconds, delay)
	}
	if r.Within < delay.Seconds()/2 || math.Abs(r.Ahead) > r.Within {
		t.Errorf("the clock is ahead by %v ± %v s, want an interval with 0 that knows of the delay", r.Ahead, r.Within)
	}
}

// What is lost is a failure, and never a time.
func TestLoss(t *testing.T) {
	t.Parallel()
	t.Run("some", func(t *testing.T) {
		t.Parallel()
		n := 0
		lossy := relay(t, listen(t, loopback), func(p []byte, back bool) [][]byte {
			if n += count(!back); !back && n%8 == 0 {
				return nil
			}
			if back {
				time.Sleep(time.Millisecond) // so that there are few
			}
			return [][]byte{p}
		})
		if got := failure(t, once(t.Context(), pair(lossy))); !strings.Contains(got, "were lost") {
			t.Errorf("the reason is %q, want that requests were lost", got)
		}
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		mute := relay(t, listen(t, loopback), func([]byte, bool) [][]byte { return nil })
		if got := failure(t, once(t.Context(), pair(mute))); !strings.Contains(got, "had no answer") {
			t.Errorf("the reason is %q, want that there was no answer", got)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		l, err := trips.Listen(loopback, token)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := failure(t, once(t.Context(), pair(l.Addr()))); !strings.Contains(got, "refused") {
			t.Errorf("the reason is %q, want that the connection was refused", got)
		}
	})
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Answers that are not those of the request are not taken for it.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	forger := relay(t, listen(t, loopback), func(p []byte, back bool) [][]byte {
		if !back {
			return [][]byte{p}
		}
		other := append([]byte(nil), p...)
		binary.BigEndian.PutUint64(other[24:], binary.BigEndian.Uint64(p[24:])-1)
		untagged := append([]byte(nil), p...)
		untagged[0] ^= 1
		request := append([]byte(nil), p...)
		request[16] = 1
		time.Sleep(2 * time.Millisecond)
		return [][]byte{other, untagged, request, append(p, 0), p[:len(p)-1], {}, p}
	})
	if got := one(t, once(t.Context(), pair(forger))).Seconds; got < 0.002 {
		t.Errorf("the round trip took %v s, less than the true answer", got)
	}
}

// A listener answers those who know the token, and never with more than was asked.
func TestStrangers(t *testing.T) {
	t.Parallel()
	at := listen(t, loopback)
	there, back := make(chan []byte, 1), make(chan []byte, 1)
	seen := relay(t, at, func(p []byte, isBack bool) [][]byte {
		first := there
		if isBack {
			first = back
		}
		select {
		case first <- append([]byte(nil), p...):
		default:
		}
		return [][]byte{p}
	})
	one(t, once(t.Context(), pair(seen)))
	asked, answered := <-there, <-back
	if len(answered) != len(asked) {
		t.Errorf("%d bytes were answered with %d", len(asked), len(answered))
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	wrong := append([]byte(nil), asked...)
	wrong[15] ^= 1
	last := append([]byte(nil), asked...)
	binary.BigEndian.PutUint64(last[24:], 77)
	for _, p := range [][]byte{
		wrong, answered, asked[:16],
		{0},
		append(append([]byte(nil), asked...), 0), make([]byte, 64), make([]byte, 9000),
		last,
	} {
		if _, err := conn.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	p := make([]byte, 10_000)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(p)
	if err != nil || n != 64 || binary.BigEndian.Uint64(p[24:]) != 77 {
		t.Errorf("the first answer is %x, %v, want that of the only request with the tag", p[:n], err)
	}
	s := pair(at)
	s.Token = []byte("another token of this size")
	if got := failure(t, once(t.Context(), s)); !strings.Contains(got, "had no answer") {
		t.Errorf("another token: %q, want no answer", got)
	}
}

func TestListenErrors(t *testing.T) {
	t.Parallel()
	if _, err := trips.Listen(loopback, token[:15]); err == nil || !strings.Contains(err.Error(), "15 bytes") {
		t.Errorf("a short token: %v", err)
	}
	if _, err := trips.Listen(listen(t, loopback), token); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port that is in use: %v", err)
	}
}

// A node that comes late, and a pod that never came, are failures with a reason, and cost no time.
func TestNotMeasured(t *testing.T) {
	t.Parallel()
	at := listen(t, loopback)
	s := pair(at)
	late := s.Measure(t.Context(), 0, time.Now().Add(-time.Hour))
	if got := failure(t, late); !strings.Contains(got, "came to the slot 1h0m") {
		t.Errorf("late: %q", got)
	}
	if got := failure(t, once(t.Context(), pair(netip.AddrPort{}))); !strings.Contains(got, "no pod of the server") {
		t.Errorf("no pod: %q", got)
	}
	if r := s.Measure(t.Context(), 1, time.Now()); len(r) != 0 {
		t.Errorf("a round that is not planned: %+v", r)
	}
	s.Self = 1
	if r := s.Measure(t.Context(), 0, time.Now().Add(-time.Hour)); len(r) != 0 {
		t.Errorf("the server: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Self = 0
	if r := s.Measure(ctx, 0, time.Now().Add(time.Hour)); len(r) != 0 {
		t.Errorf("cancelled: %+v", r)
	}
	during, cancel := context.WithTimeout(t.Context(), warmUp)
	defer cancel()
	if r := once(during, s); len(r) != 0 {
		t.Errorf("cancelled during a meeting: %+v", r)
	}
}

// Two networks have their turns in one slot, by pods that know nothing of each other: both orders occur, and they never
// measure at the same time.
func TestTurns(t *testing.T) {
	t.Parallel()
	networks := []string{pairs.Host, pairs.Pod}
	at := listen(t, loopback)
	var began [8][2]atomic.Int64 // of the slot of each seed, and of each network: ns
	var running sync.WaitGroup
	begin := time.Now()
	for seed := range began {
		for i, network := range networks {
			seen := relay(t, at, func(p []byte, _ bool) [][]byte {
				began[seed][i].CompareAndSwap(0, int64(time.Since(begin)))
				return [][]byte{p}
			})
			running.Go(func() {
				s := pair(seen)
				s.Network, s.Networks, s.Seed, s.Slot = network, networks, uint64(seed), trips.MinSlot
				r := s.Measure(t.Context(), 0, begin)
				if len(r) != 1 || r[0].Network != network || r[0].Seconds <= 0 {
					t.Errorf("got %+v, want one trip over the network %s", r, network)
				}
			})
		}
	}
	running.Wait()
	hostFirst := 0
	for seed := range began {
		apart := time.Duration(began[seed][1].Load() - began[seed][0].Load())
		if apart.Abs() < 350*time.Millisecond { // a meeting takes so long
			t.Errorf("seed %d: the turns began %v apart", seed, apart)
		}
		if apart > 0 {
			hostFirst++
		}
	}
	if hostFirst == 0 || hostFirst == len(began) {
		t.Errorf("of %d slots, %s was first in %d", len(began), networks[0], hostFirst)
	}
}

// listenBulk serves transfers until the test ends.
func listenBulk(t *testing.T) netip.AddrPort {
	t.Helper()
	b, err := trips.ListenBulk(loopback, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.Addr()
}

// bulk measures the throughput to a peer at once.
func bulk(t *testing.T, peer netip.AddrPort, token []byte) []pairs.Trip {
	t.Helper()
	s := pair(peer)
	s.Slots, s.Waves, s.Token = [][][]pairs.Meeting{{}}, s.Slots, token
	return once(t.Context(), s)
}

// A peer that takes and gives at most 1 MiB in 20 ms is measured as that, in both directions.
func TestThroughput(t *testing.T) {
	t.Parallel()
	at := listenBulk(t)
	slow := relayTCP(t, at, 64<<10, 1250*time.Microsecond)
	for name, want := range map[string]struct {
		at    netip.AddrPort
		least float64 // seconds of a MiB
		most  float64
	}{"loopback": {at, 0, 2}, "slow": {slow, 0.015, 2}} {
		r := bulk(t, want.at, token)
		if len(r) != 1 || !r[0].Bulk || r[0].Lost != "" || r[0].Within != 0 || r[0].Seconds <= want.least ||
			r[0].Seconds > want.most {
			t.Errorf("%s: got %+v, want one transfer of %v to %v s for each MiB", name, r, want.least, want.most)
		}
	}
	if r := bulk(t, at, []byte("another token of this size")); len(r) != 1 || r[0].Seconds != 0 || r[0].Lost == "" {
		t.Errorf("another token: %+v", r)
	}
	if r := bulk(t, listen(t, loopback), token); len(r) != 1 || !strings.Contains(r[0].Lost, "refused") {
		t.Errorf("nobody listens: %+v", r)
	}
}

// relayTCP stands between clients and a listener, and lets at most a chunk through in each pause, in both directions.
func relayTCP(t *testing.T, to netip.AddrPort, chunk int, pause time.Duration) netip.AddrPort {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	pass := func(from, to *net.TCPConn) {
		p := make([]byte, chunk)
		for {
			n, err := from.Read(p)
			if _, failed := to.Write(p[:n]); failed != nil || err != nil {
				_ = to.CloseWrite() // the other direction goes on
				return
			}
			time.Sleep(pause * time.Duration(n) / time.Duration(chunk))
		}
	}
	running.Go(func() {
		for {
			near, err := l.AcceptTCP()
			if err != nil {
				return
			}
			far, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
			if err != nil {
				t.Error(err)
				return
			}
			running.Go(func() { pass(near, far) })
			running.Go(func() {
				pass(far, near)
				_, _ = near.Close(), far.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}
