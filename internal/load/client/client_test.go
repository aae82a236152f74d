package client_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/socket"
	"github.com/tare-bench/tare/internal/load/turn"
)

// begun are the times from which a thread's requests are timed, if it looks at the given ones.
func begun(s client.Schedule, looks ...time.Duration) (all []time.Duration) {
	for _, now := range looks {
		for at, ok := s.Next(now); ok; at, ok = s.Next(now) {
			if all = append(all, at); !s.Open() {
				break // the connection is in use
			}
		}
	}
	return all
}

// In an open loop the requests of threads alternate, and each is timed from when it was due. In a closed
// one they begin when a connection is free, as long as there is time, or as many as were asked for.
func TestSchedule(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		times  client.Times
		thread int
		looks  []time.Duration
		want   []time.Duration
	}{
		"open, first thread": {
			client.Times{Time: 40 * ms, Rate: 100},
			0,
			[]time.Duration{99 * ms, 100 * ms, 150 * ms},
			[]time.Duration{100 * ms, 120 * ms},
		},
		"open, second thread": {
			client.Times{Time: 40 * ms, Rate: 100},
			1,
			[]time.Duration{125 * ms, 150 * ms},
			[]time.Duration{110 * ms, 130 * ms},
		},
		"closed": {
			client.Times{Warmup: 10 * ms, Time: 20 * ms},
			0,
			[]time.Duration{100 * ms, 129 * ms, 130 * ms},
			[]time.Duration{100 * ms, 129 * ms},
		},
		"a number": {
			client.Times{Warmup: 10 * ms, Requests: 3},
			0,
			[]time.Duration{100 * ms, 110 * ms, 120 * ms, 130 * ms},
			[]time.Duration{100 * ms, 110 * ms, 120 * ms}, // one of the warm-up, and two of three that count
		},
	} {
		s := tt.times.Schedule(tt.thread, 2, 100*ms)
		if diff := cmp.Diff(tt.want, begun(s, tt.looks...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestShare(t *testing.T) {
	for _, tt := range []struct{ all, first, last int64 }{{7, 3, 2}, {6, 2, 2}, {1, 1, 0}} {
		if first, last := client.Share(tt.all, 0, 3), client.Share(tt.all, 2, 3); first != tt.first || last != tt.last {
			t.Errorf("%d among three: the first has %d and the last %d, want %d and %d", tt.all, first, last, tt.first, tt.last)
		}
	}
}

// Requests that were due too late to be answered in time do not count as missed.
func TestMissedShare(t *testing.T) {
	for _, tt := range []struct {
		times  client.Times
		grace  float64
		timely int64
		want   float64
	}{
		{client.Times{Time: time.Second, Rate: 1000}, 0, 1000, 0},
		{client.Times{Time: time.Second, Rate: 1000}, 0, 900, 0.1},
		{client.Times{Time: time.Second, Rate: 1000}, 0.1, 900, 0},
		{client.Times{Time: time.Second, Rate: 1000}, 10, 500, 0}, // never more than half of the time
		{client.Times{Time: 1750 * time.Millisecond, Rate: 7}, 0, 12, 0},
	} {
		if got := client.MissedShare(tt.times, tt.grace, tt.timely); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%d of %+v with a grace of %v s: %v, want %v", tt.timely, tt.times, tt.grace, got, tt.want)
		}
	}
}

// Keys leave a queue in the order in which they came, also past its end.
func TestQueue(t *testing.T) {
	thread, err := client.New(2, time.Second, false)
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Poll.Close()
	q := &thread.Free
	q.Push(5)
	q.Push(6)
	got := []int{q.Pop()}
	q.Push(7)
	got = append(got, q.Pop(), q.Pop())
	if diff := cmp.Diff([]int{5, 6, 7}, got); diff != "" || q.Len() != 0 {
		t.Errorf("%d left; (-want +got):\n%s", q.Len(), diff)
	}
}

// waiting is a thread with one connection that has the key 3, and the other side of it. Its clock begins now.
func waiting(t *testing.T, times client.Times, interval time.Duration) (*client.Thread, int) {
	t.Helper()
	thread, err := client.New(1, interval, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(thread.Poll.Close)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close(pair[0]); socket.Close(pair[1]) })
	if errno := thread.Poll.Add(pair[0], 3, socket.Incoming); errno != 0 {
		t.Fatal(errno)
	}
	thread.Turn = (*turn.Stage)(nil).Clock(time.Now())
	thread.Schedule = times.Schedule(0, 1, time.Millisecond)
	thread.Read()
	return &thread, pair[1]
}

// A thread waits until there is an event, until a request is due, or until it must look at deadlines. A signal
// can end a wait before.
func TestAwait(t *testing.T) {
	closed, open := client.Times{Time: time.Hour}, client.Times{Time: time.Hour, Rate: 1000}
	for name, tt := range map[string]struct {
		times    client.Times
		interval time.Duration
		event    bool
		ended    func(w *client.Thread, events []unix.EpollEvent) bool
	}{
		"an event": {closed, time.Hour, true, func(_ *client.Thread, events []unix.EpollEvent) bool {
			return len(events) == 1 && events[0].Fd == 3
		}},
		"a request is due": {open, time.Hour, false, func(w *client.Thread, _ []unix.EpollEvent) bool {
			_, ok := w.Schedule.Next(w.Now)
			return ok
		}},
		"deadlines are due": {closed, time.Millisecond, false, func(w *client.Thread, _ []unix.EpollEvent) bool {
			return w.MustCheck() && !w.MustCheck()
		}},
	} {
		thread, other := waiting(t, tt.times, tt.interval)
		thread.Free.Push(3)
		if tt.event {
			if _, errno := socket.Send(other, []byte("x"), 0); errno != 0 {
				t.Fatal(errno)
			}
		}
		const most = 1000 // waits: far more than signals can end
		for n := 0; ; n++ {
			events := thread.Await()
			if thread.Read(); tt.ended(thread, events) {
				break
			}
			if n == most {
				t.Errorf("%s: the thread has not noticed it", name)
				break
			}
		}
	}
}

// Threads begin at the same time, each with its number.
func TestRun(t *testing.T) {
	origin, seen := time.Now(), make([]time.Duration, 3)
	s := client.Run(nil, nil, origin, len(seen), func(i int, clock *turn.Clock, begin time.Duration) {
		seen[i] = begin
		if clock.Now() < begin {
			t.Errorf("thread %d began at %v, before %v", i, clock.Now(), begin)
		}
	})
	for i, begin := range seen {
		if begin != s.Begin {
			t.Errorf("thread %d was told to begin at %v, want %v", i, begin, s.Begin)
		}
	}
	if s.Begin < client.StartDelay || s.Slices != nil {
		t.Errorf("span %+v", s)
	}
}
