package load_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/loadtest"
	"github.com/tare-bench/tare/internal/load/turn"
)

// All threads run before any begins, and all are given the same time.
func TestTogether(t *testing.T) {
	const threads = 5
	defer load.SetThreads(threads)()
	var here atomic.Int64
	var began [threads]time.Time
	load.RunThreads(nil, threads, func(i int, clock *turn.Clock) {
		began[i] = clock.Began()
		// Nobody gets past this unless all are here at once.
		here.Add(1)
		for here.Load() < threads {
			runtime.Gosched()
		}
	})
	for i, at := range began {
		if at.IsZero() || at != began[0] {
			t.Errorf("thread %d began at %v, thread 0 at %v", i, at, began[0])
		}
	}
}

// The collector and the number of threads are as before once it is over.
func TestQuiet(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	percent := debug.SetGCPercent(77)
	defer debug.SetGCPercent(percent)
	restore := load.SetThreads(procs + 3)
	if got := runtime.GOMAXPROCS(0); got != procs+3 {
		t.Errorf("%d threads at once, want %d", got, procs+3)
	}
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("the collector is at %d %%, want it off", got)
	}
	restore()
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("afterwards %d threads at once, want %d", got, procs)
	}
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("afterwards the collector is at %d %%, want 77", got)
	}
}

func TestThreads(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  int
		err   string
	}{
		{nil, load.CPUs(), ""},
		{[]string{"threads=all"}, load.CPUs(), ""},
		{[]string{"threads=7"}, 7, ""},
		{[]string{"threads=0"}, 0, "threads=0: want a whole number from 1 to 1024"},
		{[]string{"threads=1025"}, 1025, "threads=1025"},
		{[]string{"threads=some"}, 0, "threads=some"},
	} {
		args := loadtest.Args(test.words...)
		if got := args.Threads("threads", "all"); got != test.want && test.err == "" {
			t.Errorf("%v: %d threads, want %d", test.words, got, test.want)
		}
		if err := args.Err(); (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%v: %v, want %q", test.words, err, test.err)
		}
	}
}
