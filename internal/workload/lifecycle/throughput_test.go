package lifecycle_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
)

// series returns the series of a sample in whole milliseconds, errors as they are.
func series(s bench.Sample) map[string][]float64 {
	out := map[string][]float64{}
	for _, one := range s.Series {
		for _, v := range one.Values {
			if one.Metric[:min(7, len(one.Metric))] != lifecycle.ErrorsAt {
				v = math.Round(1e3 * v)
			}
			out[one.Metric] = append(out[one.Metric], v)
		}
	}
	return out
}

// Every operation of every container that came through is kept by itself, also
// where a sequence has it twice.
func TestThroughputKeepsEveryOperation(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		s := runBlock(t, lifecycle.NewThroughput(), enginetest.NewFake(slow(clock)), clock, map[string]string{
			"concurrency": "2", "iterations": "1", "operations": "create,start,pause,resume,pause,resume,kill,remove",
		})
		if s.Outcome != bench.OK {
			t.Fatalf("%s: %s", s.Outcome, s.Reason)
		}
		got := series(s)
		want := map[string][]float64{
			"create": {10, 10}, "start": {20, 20}, "pause": {30, 30, 30, 30}, "resume": {40, 40, 40, 40}, "kill": {60, 60}, "remove": {80, 80},
			"total": {310, 310},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

// What the operations of a container that failed took is in no series; where it
// failed is counted.
func TestThroughputCountsWhereItFailed(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		config := slow(clock)
		config.Takes[enginetest.OpRun] = 500 * time.Millisecond
		config.Faults = []enginetest.Fault{
			{Op: enginetest.OpStart, Call: 3, Err: errors.New("lost")},
			{Op: enginetest.OpRemove, Call: 4, Err: errors.New("lost")},
		}
		s := runBlock(t, lifecycle.NewThroughput(), enginetest.NewFake(config), clock, map[string]string{"iterations": "5"})
		got := series(s)
		if s.Outcome != bench.OK || len(got["wait"]) != 3 || got["wait"][0] < 480 || got["wait"][0] > 500 {
			t.Errorf("%s %s: wait took %v ms, want three times 500 or a little less", s.Outcome, s.Reason, got["wait"])
		}
		delete(got, "wait")
		delete(got, "total")
		want := map[string][]float64{
			"create": {10, 10, 10}, "start": {20, 20, 20}, "remove": {80, 80, 80}, "errors.start": {1}, "errors.remove": {1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

// processorRecorder notes how many processors Go's scheduler has when containers are made.
type processorRecorder struct {
	bench.Engine
	mu         sync.Mutex
	processors []int
}

func (w *processorRecorder) Unwrap() bench.Engine { return w.Engine }

func (w *processorRecorder) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	w.mu.Lock()
	w.processors = append(w.processors, runtime.GOMAXPROCS(0))
	w.mu.Unlock()
	return w.Engine.Create(ctx, spec)
}

// Lanes have as many processors of Go's scheduler as they can use, in every cell, and
// what comes before and after them has one again.
func TestThroughputProcessors(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		for _, lanes := range []int{1, 2, 1000} {
			w := &processorRecorder{Engine: enginetest.NewFake(slow(clock))}
			params := map[string]string{"concurrency": strconv.Itoa(lanes), "iterations": "1"}
			s := runBlock(t, lifecycle.NewThroughput(), w, clock, params)
			if s.Outcome != bench.OK {
				t.Fatal(s.Reason)
			}
			if w.processors[0] != 1 {
				t.Errorf("%d processors for the container before the lanes, want 1", w.processors[0])
			}
			want := min(lanes, runtime.NumCPU())
			for _, n := range w.processors[1:] {
				if n != want {
					t.Fatalf("%d lanes have %d processors, want %d", lanes, n, want)
				}
			}
		}
	})
}

// A percentile is told where at least ten containers lie beyond it, and not of fewer:
// the single values are kept all the same.
func TestThroughputPercentiles(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		for _, test := range []struct {
			iterations       string
			median, p90, p99 bool
		}{
			{"5", false, false, false},
			{"19", false, false, false},
			{"20", true, false, false},
			{"99", true, false, false},
			{"100", true, true, false},
			{"1000", true, true, true},
		} {
			w := lifecycle.NewThroughput()
			s := runBlock(t, w, enginetest.NewFake(slow(clock)), clock, map[string]string{"iterations": test.iterations})
			got := named(w, s)
			for name, want := range map[string]bool{"total.p50": test.median, "create.p90": test.p90, "remove.p99": test.p99} {
				if _, told := got[name]; told != want {
					t.Errorf("%s containers: %s told %v, want %v", test.iterations, name, told, want)
				}
			}
			if n := strconv.Itoa(len(series(s)["total"])); n != test.iterations {
				t.Errorf("%s single values of %s containers", n, test.iterations)
			}
		}
	})
}

// An operation that hangs costs its own container only: it meets the time limit
// of an operation, and the others of the trial go on.
func TestThroughputOperationHangs(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		config := slow(clock)
		config.Faults = []enginetest.Fault{
			{Op: enginetest.OpStart, Call: 3, Delay: enginetest.Forever},
			{Op: enginetest.OpRemove, Call: 4, Delay: enginetest.Forever},
		}
		s := runBlock(t, lifecycle.NewThroughput(), enginetest.NewFake(config), clock, map[string]string{"iterations": "5"})
		got := series(s)
		if s.Outcome != bench.OK || len(got["total"]) != 3 {
			t.Errorf("%s %s: %d containers came through, want 3", s.Outcome, s.Reason, len(got["total"]))
		}
		for _, name := range []string{"errors.start", "errors.remove"} {
			if diff := cmp.Diff([]float64{1}, got[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// Where nothing comes through, the trial says at what, and that it was the time
// limit.
func TestThroughputEveryOperationHangs(t *testing.T) {
	for when, calls := range map[string][]int{"the one that is looked at": {1}, "those after it": {2, 3}} {
		t.Run(when, func(t *testing.T) {
			inSynctest(t, func(t *testing.T, clock func() time.Duration) {
				config := slow(clock)
				for _, call := range calls {
					config.Faults = append(config.Faults,
						enginetest.Fault{Op: enginetest.OpStart, Call: call, Delay: enginetest.Forever})
				}
				s := runBlock(t, lifecycle.NewThroughput(), enginetest.NewFake(config), clock, map[string]string{"iterations": "2"})
				if s.Outcome != bench.TimedOut || s.Operation != "start" ||
					s.Reason != "start: the operation reached its time limit of 2m0s" {
					t.Errorf("%s in %q: %s", s.Outcome, s.Operation, s.Reason)
				}
			})
		})
	}
}
