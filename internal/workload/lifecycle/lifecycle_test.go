package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// measure runs blocks of the workload on one engine in a bubble of fake time.
func measure(t *testing.T, e bench.Engine, spec bench.Spec, clock func() time.Duration, blocks int) []bench.Sample {
	t.Helper()
	return workloadtest.Trials{
		Workload: lifecycle.New(), Engine: e, Spec: spec, N: blocks, Clock: clock,
		Trial: 10 * time.Second, Op: 2 * time.Second,
	}.Run(t)
}

// latencies are latencies in whole milliseconds, so that sums are exact to see.
func latencies() map[enginetest.Op]time.Duration {
	return map[enginetest.Op]time.Duration{
		enginetest.OpCreate: 10 * time.Millisecond,
		enginetest.OpAttach: 500 * time.Millisecond, // must be in no metric
		enginetest.OpStart:  20 * time.Millisecond,
		enginetest.OpRun:    3 * time.Millisecond,
		enginetest.OpRemove: 40 * time.Millisecond,
	}
}

func inSynctest(t *testing.T, f func(t *testing.T, clock func() time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f(t, func() time.Duration { return 90*time.Second + time.Since(began) })
	})
}

func values(s bench.Sample) map[string]float64 {
	out := map[string]float64{}
	for i, m := range lifecycle.New().Metrics() {
		if v, ok := s.Value(i); ok {
			out[m.Name] = math.Round(v*1e6) / 1e6
		}
	}
	return out
}

// What each metric spans, with an engine whose every step takes a known time.
func TestSpans(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		e := enginetest.NewFake(enginetest.FakeConfig{Takes: latencies(), Now: clock})
		s := measure(t, e, bench.Spec{}, clock, 1)[0]
		if s.Outcome != bench.OK {
			t.Fatalf("%s: %s", s.Outcome, s.Reason)
		}
		want := map[string]float64{
			lifecycle.Create: 0.010, lifecycle.Start: 0.020, lifecycle.Remove: 0.040,
		}
		got := values(s)
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s = %v, want %v", name, got[name], v)
			}
		}
		// However the fake interleaves start and the program inside, the parts
		// must add up: total = create + (start … exit) + remove.
		if got[lifecycle.First] < 0.010 || got[lifecycle.First] > 0.030 {
			t.Errorf("first instruction after %v s, want create (0.010) and at most start (0.020)", got[lifecycle.First])
		}
		if sum := got[lifecycle.First] + 0.003 + got[lifecycle.Exit] +
			got[lifecycle.Remove]; math.Abs(sum-got[lifecycle.Total]) > 1e-9 {
			t.Errorf("first %v + run 0.003 + exit %v + remove %v = %v, but total = %v",
				got[lifecycle.First], got[lifecycle.Exit], got[lifecycle.Remove], sum, got[lifecycle.Total])
		}
		if s.Applied == nil || s.Applied.Network != "none" || len(s.Notes) != 0 {
			t.Errorf("applied %+v, notes %v; want network none, no notes", s.Applied, s.Notes)
		}
	})
}

// The stages of a traced trial sum to what a timed one measures; it has one start, and no value.
func TestStages(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		e := enginetest.NewFake(enginetest.FakeConfig{Takes: latencies(), Now: clock})
		samples := workloadtest.Trials{
			Workload: lifecycle.New(), Engine: e, Params: map[string]string{"starts": "3"}, Traced: true, Clock: clock,
		}.Run(t)
		timed, traced := samples[0], samples[1]
		if timed.Trace != nil || !traced.Trial.Traced || traced.Outcome != bench.OK || len(values(traced)) != 0 {
			t.Fatalf("timed %+v\ntraced %+v", timed, traced)
		}
		var names []string
		var sum time.Duration
		for _, e := range traced.Trace.Events {
			names = append(names, e.Source+" "+e.Attributes[0].Value)
			n, err := strconv.Atoi(e.Attributes[1].Value)
			if err != nil || e.Name != bench.StageEvent {
				t.Errorf("%+v: %v", e, err)
			}
			if e.Source == lifecycle.First {
				sum += time.Duration(n)
			}
		}
		want := []string{"first_instruction create", "first_instruction start", "remove remove"}
		if !slices.Equal(names, want) {
			t.Errorf("stages %q, want %q", names, want)
		}
		if first := values(timed)[lifecycle.First]; math.Abs(sum.Seconds()-first) > 1e-6 {
			t.Errorf("the stages sum to %v, the metric is %v s", sum, first)
		}
		for i, want := range []string{bench.StageThread, bench.StageInside, bench.StageThread} {
			if ended := traced.Trace.Events[i].Attributes; len(ended) != 3 || ended[2].Key != want {
				t.Errorf("stage %d ended in %v, want %s", i, ended, want)
			}
		}
	})
}

// A process inside whose clock is another one must not be believed.
func TestForeignClock(t *testing.T) {
	for _, offset := range []time.Duration{-89 * time.Second, time.Hour} {
		t.Run(offset.String(), func(t *testing.T) {
			inSynctest(t, func(t *testing.T, clock func() time.Duration) {
				e := enginetest.NewFake(enginetest.FakeConfig{Takes: latencies(), Now: clock, ClockOffset: offset})
				s := measure(t, e, bench.Spec{}, clock, 1)[0]
				if s.Outcome != bench.OK || !cmp.Equal(s.Notes, []string{bench.NoteHostClock}) {
					t.Fatalf("%s %s, notes %v; want ok and %q", s.Outcome, s.Reason, s.Notes, bench.NoteHostClock)
				}
				if first := values(s)[lifecycle.First]; first < 0.010 || first > 0.040 {
					t.Errorf("first instruction after %v s by the host's clock, want 0.010 to 0.040", first)
				}
			})
		})
	}
}

// Whatever goes wrong is a sample with the operation and no value, and the
// container is gone.
func TestFailures(t *testing.T) {
	fail := func(op enginetest.Op) []enginetest.Fault {
		return []enginetest.Fault{{Op: op, Err: fmt.Errorf("no %s today", op)}}
	}
	hang := func(op enginetest.Op) []enginetest.Fault {
		return []enginetest.Fault{{Op: op, Delay: enginetest.Forever}}
	}
	tests := []struct {
		name      string
		faults    []enginetest.Fault
		spec      bench.Spec
		applied   func(*bench.Applied)
		outcome   bench.Outcome
		operation string
		reason    string
	}{
		{name: "create fails", faults: fail(enginetest.OpCreate), outcome: bench.Failed, operation: "create", reason: "no create today"},
		{name: "inspect fails", faults: fail(enginetest.OpInspect), outcome: bench.Failed, operation: "inspect", reason: "no inspect today"},
		{name: "attach fails", faults: fail(enginetest.OpAttach), outcome: bench.Failed, operation: "attach", reason: "no attach today"},
		{name: "start fails", faults: fail(enginetest.OpStart), outcome: bench.Failed, operation: "start", reason: "no start today"},
		{name: "wait fails", faults: fail(enginetest.OpWait), outcome: bench.Failed, operation: "wait", reason: "no wait today"},
		{
			name: "remove fails once", faults: []enginetest.Fault{{Op: enginetest.OpRemove, Call: 1, Err: fmt.Errorf("busy")}},
			outcome: bench.Failed, operation: "remove", reason: "busy",
		},
		{name: "create hangs", faults: hang(enginetest.OpCreate), outcome: bench.TimedOut, operation: "create", reason: "time limit of 2s"},
		{name: "start hangs", faults: hang(enginetest.OpStart), outcome: bench.TimedOut, operation: "start", reason: "time limit of 2s"},
		{name: "wait hangs", faults: hang(enginetest.OpWait), outcome: bench.TimedOut, operation: "wait", reason: "time limit of 2s"},
		{name: "never ends", spec: bench.Spec{Argv: []string{"/tare-agent", "hold"}}, outcome: bench.TimedOut, operation: "wait", reason: "time limit of 2s"},
		{name: "prints without end", spec: bench.Spec{Argv: []string{"/tare-agent", "spew"}}, outcome: bench.TimedOut, operation: "wait", reason: "time limit of 2s"},
		{
			name: "ends badly", spec: bench.Spec{Argv: []string{"/tare-agent", "exit", "3"}}, outcome: bench.Failed,
			reason: "the process inside ended with exit status 3",
		},
		{
			name: "something else was applied", applied: func(a *bench.Applied) {
				a.Network = "host"
			}, spec: bench.Spec{Network: "none"}, outcome: bench.Failed, operation: "inspect",
			reason: "asked for none, got host",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inSynctest(t, func(t *testing.T, clock func() time.Duration) {
				e := enginetest.NewFake(enginetest.FakeConfig{
					Takes: latencies(), Now: clock, Faults: tt.faults, Applied: tt.applied,
				})
				s := measure(t, e, tt.spec, clock, 1)[0]
				if s.Outcome != tt.outcome || s.Operation != tt.operation || !strings.Contains(s.Reason, tt.reason) ||
					s.Values != nil {
					t.Errorf("%s, operation %q, reason %q, values %v; want %s, %q, %q, none",
						s.Outcome, s.Operation, s.Reason, s.Values, tt.outcome, tt.operation, tt.reason)
				}
				if n := e.Live(); n != 0 {
					t.Errorf("%d containers left", n)
				}
			})
		})
	}
}

// A program of one's own has no mark: what needs it is not reported, the rest is.
func TestOwnProgram(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		e := enginetest.NewFake(enginetest.FakeConfig{Takes: latencies(), Now: clock})
		s := measure(t, e, bench.Spec{Argv: []string{"/tare-agent", "exit", "0"}}, clock, 1)[0]
		got := values(s)
		_, has := got[lifecycle.First]
		if s.Outcome != bench.OK || has || got[lifecycle.Total] == 0 || got[lifecycle.Create] == 0 {
			t.Errorf("%s %s %v; want ok, a total and no first instruction", s.Outcome, s.Reason, got)
		}
	})
}

// Schedule, runner, workload and store over engines that fail, hang and are
// slow at random: whatever happens there is one sample for each trial, in
// order, no value from a failed one, and no container left.
func TestSimulation(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inSynctest(t, func(t *testing.T, clock func() time.Duration) { simulate(t, seed, clock) })
		})
	}
}

func simulate(t *testing.T, seed uint64, clock func() time.Duration) {
	r := rand.New(rand.NewPCG(seed, 1))
	ops := []enginetest.Op{
		enginetest.OpPrepare, enginetest.OpCreate, enginetest.OpAttach, enginetest.OpInspect,
		enginetest.OpStart, enginetest.OpRun, enginetest.OpWait, enginetest.OpRemove,
	}
	var faults []enginetest.Fault
	for range 1 + r.IntN(12) {
		f := enginetest.Fault{Op: ops[r.IntN(len(ops))], Call: 1 + r.IntN(40)}
		switch r.IntN(3) {
		case 0:
			f.Err = fmt.Errorf("fault of %s", f.Op)
		case 1:
			f.Delay = enginetest.Forever
		default:
			f.Delay = time.Duration(r.IntN(5000)) * time.Millisecond
		}
		if f.Op == enginetest.OpRun {
			f.Err = nil // a program inside has a status, not an error
		}
		faults = append(faults, f)
	}
	const blocks = 40
	e := enginetest.NewFake(enginetest.FakeConfig{Seed: seed, Takes: latencies(), Jitter: 0.5, Faults: faults, Now: clock})
	samples := measure(t, e, bench.Spec{}, clock, blocks)
	if len(samples) > blocks || len(samples) == 0 {
		t.Fatalf("%d samples for %d trials", len(samples), blocks)
	}
	for i, s := range samples {
		if s.Trial.Seq != i || (s.Outcome == bench.OK) != (s.Values != nil) || (s.Outcome == bench.OK) == (s.Reason != "") {
			t.Errorf("sample %d: seq %d, %s %q, values %v", i, s.Trial.Seq, s.Outcome, s.Reason, s.Values)
		}
	}
	if n := e.Live(); n != 0 {
		t.Errorf("%d containers left; faults %+v", n, faults)
	}
}

// idleRemover is an engine whose removals say that all is well and do nothing.
type idleRemover struct{ *enginetest.Fake }

func (idleRemover) Gone(context.Context, bench.Container) error {
	return errors.New("it is still there")
}

// What an engine says it has removed, and has not, is a failed operation and no time;
// in a lane too.
func TestIdleRemove(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		for name, w := range map[string]bench.Workload{
			"lifecycle": lifecycle.New(), "throughput": lifecycle.NewThroughput(),
		} {
			e := enginetest.NewFake(enginetest.FakeConfig{Takes: latencies(), Now: clock})
			s := runBlock(t, w, idleRemover{e}, clock, nil)
			if s.Outcome != bench.Failed || s.Operation != "remove" || !strings.Contains(s.Reason, "it is still there") ||
				s.Values != nil {
				t.Errorf("%s: %s in %q: %q, values %v; want a failed remove", name, s.Outcome, s.Operation, s.Reason, s.Values)
			}
		}
	})
}

// Of several containers of a trial each metric is the median, which one slow start does not change.
func TestStarts(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		slow := enginetest.Fault{Op: enginetest.OpCreate, Call: 2, Delay: time.Second}
		e := enginetest.NewFake(enginetest.FakeConfig{Now: clock, Takes: latencies(), Faults: []enginetest.Fault{slow}})
		s := workloadtest.Trials{
			Workload: lifecycle.New(), Engine: e, N: 1, Clock: clock, Trial: 10 * time.Second, Op: 2 * time.Second,
			Params: map[string]string{"starts": "5"},
		}.Run(t)[0]
		if got := values(s); s.Outcome != bench.OK || got[lifecycle.Start] != 0.020 || got[lifecycle.Create] != 0.010 {
			t.Errorf("%s: %s: %v", s.Outcome, s.Reason, got)
		}
	})
}
