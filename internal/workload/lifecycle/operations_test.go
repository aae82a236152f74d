package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// runBlock runs one block of a workload with options on one engine.
func runBlock(
	t *testing.T, w bench.Workload, e bench.Engine, clock func() time.Duration, params map[string]string,
) bench.Sample {
	t.Helper()
	return performSpec(t, w, e, clock, params, bench.Spec{})
}

func performSpec(
	t *testing.T, w bench.Workload, e bench.Engine, clock func() time.Duration, params map[string]string, spec bench.Spec,
) bench.Sample {
	t.Helper()
	return workloadtest.Trials{
		Workload: w, Engine: e, Spec: spec, Params: params, Clock: clock, Trial: 5 * time.Minute, Op: 2 * time.Minute,
	}.Run(t)[0]
}

// named returns the values of a sample in milliseconds, by metric.
func named(w bench.Workload, s bench.Sample) map[string]float64 {
	out := map[string]float64{}
	for i, m := range w.Metrics() {
		if v, ok := s.Value(i); ok {
			out[m.Name] = float64(int(v*1e6+0.5)) / 1e3
		}
	}
	return out
}

// slow is an engine whose operations take whole milliseconds.
func slow(clock func() time.Duration) enginetest.FakeConfig {
	latencies := map[enginetest.Op]time.Duration{enginetest.OpInspect: time.Second, enginetest.OpAttach: time.Second}
	for i, op := range []enginetest.Op{
		enginetest.OpCreate, enginetest.OpStart, enginetest.OpPause, enginetest.OpResume,
		enginetest.OpExec, enginetest.OpSignal, enginetest.OpStop, enginetest.OpRemove,
	} {
		latencies[op] = time.Duration(i+1) * 10 * time.Millisecond
	}
	return enginetest.FakeConfig{Takes: latencies, Now: clock}
}

// Each operation is timed by itself, one that comes twice by its mean, and all
// of them add up.
func TestOperations(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		f := enginetest.NewFake(slow(clock))
		w := lifecycle.New()
		s := runBlock(t, w, f, clock,
			map[string]string{"operations": "create,start,pause,resume,exec,signal,pause,resume,stop,remove"})
		if s.Outcome != bench.OK {
			t.Fatalf("%s: %s", s.Outcome, s.Reason)
		}
		got := named(w, s)
		first := got[lifecycle.First]
		delete(got, lifecycle.First)
		want := map[string]float64{
			"create": 10, "start": 20, "pause": 30, "resume": 40, "exec": 50, "signal": 60, "stop": 70, "remove": 80,
			"total": 10 + 20 + 2*30 + 2*40 + 50 + 60 + 70 + 80,
		}
		want[bench.StateMeasured] = want["total"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("milliseconds (-want +got):\n%s", diff)
		}
		if first < 10 || first > 30 {
			t.Errorf("first instruction after %v ms, want 10 to 30: what was inspected and attached is left out", first)
		}
		if f.Live() != 0 {
			t.Errorf("%d containers are left", f.Live())
		}
	})
}

// bareEngine hides what an engine can do beside the least.
type bareEngine struct{ bench.Engine }

// signaler can send signals, and has no stop.
type signaler struct {
	bench.Engine
	bench.Signaler
}

// What an engine lacks is not supported: nothing is created, nothing is timed.
func TestLackingOperation(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		for _, op := range []string{"pause,resume", "exec", "signal", "checkpoint,restore"} {
			f := enginetest.NewFake(slow(clock))
			s := runBlock(t, lifecycle.New(), bareEngine{f}, clock,
				map[string]string{"operations": "create,start," + op + ",remove"})
			word, _, _ := strings.Cut(op, ",")
			if s.Outcome != bench.Unsupported || !strings.Contains(s.Reason, word) || s.Values != nil {
				t.Errorf("%s: %s %q, want unsupported and the name of the operation", op, s.Outcome, s.Reason)
			}
			if calls := f.Calls(); len(calls) != 0 {
				t.Errorf("%s: the engine was asked to %v", op, calls)
			}
		}
	})
}

// A process that ignores SIGTERM is told as one, with every kind of engine, and
// there is no duration of that stop.
func TestStubbornProcess(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		for name, wrap := range map[string]func(*enginetest.Fake) bench.Engine{
			"its own stop": func(f *enginetest.Fake) bench.Engine { return f },
			"signals":      func(f *enginetest.Fake) bench.Engine { return signaler{f, f} },
		} {
			f := enginetest.NewFake(slow(clock))
			w := lifecycle.New()
			p := map[string]string{"operations": "create,start,stop,remove", "grace": "3s"}
			s := performSpec(t, w, wrap(f), clock, p, bench.Spec{Argv: []string{"/tare-agent", "stubborn"}})
			if s.Outcome != bench.Failed || s.Operation != lifecycle.Stop || !strings.Contains(s.Reason, "ignored SIGTERM") ||
				s.Values != nil {
				t.Errorf("%s: %s in %q: %q, want a failed stop", name, s.Outcome, s.Operation, s.Reason)
			}
			if f.Live() != 0 {
				t.Errorf("%s: %d containers are left", name, f.Live())
			}
		}
	})
}

// A sequence is held to what a container can go through, with the word that is
// wrong.
func TestSequenceIsChecked(t *testing.T) {
	valid := lifecycle.New().Params()[0].Valid
	for text, word := range map[string]int{
		"create,start,wait,remove":          -1,
		"create,remove":                     -1,
		"create,start,remove":               -1,
		"create,start,pause,remove":         -1,
		"create, start, exec, stop, remove": -1,
		"":                                  0,
		"start,remove":                      0,
		"create,pause,start,remove":         1,
		"create,start,resume,remove":        2,
		"create,start,wait,stop,remove":     3,
		"create,start,wait,remove,remove":   4,
		"create,start,wait":                 2,
		"create,sttart,wait,remove":         1,
		"create,start,checkpoint,exec":      3,
	} {
		err := valid(text)
		var wrong *bench.ListItemError
		switch {
		case word < 0 && err != nil:
			t.Errorf("%q: %v, want it taken", text, err)
		case word >= 0 && (!errors.As(err, &wrong) || wrong.Word != word):
			t.Errorf("%q: %v, want word %d refused", text, err, word)
		}
	}
}

// The population is there while the measured container lives, and gone after.
func TestPopulation(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		f := enginetest.NewFake(slow(clock))
		most := 0
		counting := watched{f, func() { most = max(most, f.Live()) }}
		s := runBlock(t, lifecycle.New(), counting, clock, map[string]string{"population": "7"})
		if s.Outcome != bench.OK || most != 7 || f.Live() != 0 {
			t.Errorf("%s %s: %d lived when the next was created, %d are left; want 7 and 0", s.Outcome, s.Reason, most, f.Live())
		}
		broken := slow(clock)
		broken.Faults = []enginetest.Fault{{Op: enginetest.OpStart, Call: 5, Err: errors.New("no more room")}}
		f = enginetest.NewFake(broken)
		s = runBlock(t, lifecycle.New(), f, clock, map[string]string{"population": "7"})
		if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "no more room") || f.Live() != 0 {
			t.Errorf("%s %q and %d left, want it failed for want of room and nothing left", s.Outcome, s.Reason, f.Live())
		}
	})
}

// watched calls look before each container is created.
type watched struct {
	bench.Engine
	look func()
}

func (w watched) Create(ctx context.Context, s bench.Spec) (bench.Container, error) {
	w.look()
	return w.Engine.Create(ctx, s)
}

// Lanes work side by side: with operations that only wait, twice the lanes are
// twice the rate; and what fails is counted apart.
func TestThroughput(t *testing.T) {
	inSynctest(t, func(t *testing.T, clock func() time.Duration) {
		w := lifecycle.NewThroughput()
		for lanes, want := range map[string]float64{"1": 1e3 / 113, "4": 4e3 / 113} {
			config := slow(clock)
			config.Takes[enginetest.OpRun] = 3 * time.Millisecond
			f := enginetest.NewFake(config)
			s := runBlock(t, w, f, clock, map[string]string{"concurrency": lanes, "iterations": "25"})
			got := named(w, s)
			if s.Outcome != bench.OK || s.Applied == nil || f.Live() != 0 {
				t.Fatalf("%s %s, applied %v, %d left", s.Outcome, s.Reason, s.Applied, f.Live())
			}
			// 10 create, 20 start, 3 inside (beside start or after it), 80 remove.
			if rate := got[lifecycle.Rate] / 1e3; rate < want*0.97 || rate > want*1.03 {
				t.Errorf("%s lanes: %v containers per second, want about %v", lanes, rate, want)
			}
			if got["create.p50"] != 10 || got["start.p50"] != 20 || got["remove.p50"] != 80 || got[lifecycle.Errors] != 0 {
				t.Errorf("%s lanes: %v", lanes, got)
			}
		}
		config := slow(clock)
		config.Faults = []enginetest.Fault{{Op: enginetest.OpStart, Call: 4, Err: errors.New("lost")}}
		f := enginetest.NewFake(config)
		s := runBlock(t, w, f, clock, map[string]string{"concurrency": "2", "iterations": "5"})
		if got := named(w, s); s.Outcome != bench.OK || got[lifecycle.Errors] != 1e3 || f.Live() != 0 {
			t.Errorf("%s %s: %v errors, %d left; want one error apart", s.Outcome, s.Reason, got[lifecycle.Errors]/1e3, f.Live())
		}
	})
}

// lenientEngine is an engine that ends what has ended already, and says that it did.
type lenientEngine struct{ *enginetest.Fake }

func (lenientEngine) Signal(context.Context, bench.Container, syscall.Signal) error { return nil }
func (lenientEngine) Stop(context.Context, bench.Container, time.Duration) error    { return nil }

// A process that has ended by itself cannot be ended: that is noted, is no
// failure, and has no time, whatever the engine answers.
func TestEndedBeforeItWasEnded(t *testing.T) {
	ends := bench.Spec{Argv: []string{agent.Path, "exit", "0"}}
	for _, w := range []bench.Workload{lifecycle.New(), lifecycle.NewThroughput()} {
		for _, end := range []string{"kill", "stop"} {
			for name, engine := range map[string]func(*enginetest.Fake) bench.Engine{
				"refuses":      func(f *enginetest.Fake) bench.Engine { return f },
				"obliges":      func(f *enginetest.Fake) bench.Engine { return lenientEngine{f} },
				"only signals": func(f *enginetest.Fake) bench.Engine { return signaler{f, f} },
			} {
				t.Run(w.Name()+"/"+end+"/"+name, func(t *testing.T) {
					inSynctest(t, func(t *testing.T, clock func() time.Duration) {
						config := slow(clock)
						config.Takes[enginetest.OpRun] = time.Millisecond
						s := performSpec(t, w, engine(enginetest.NewFake(config)), clock,
							map[string]string{"operations": "create,start," + end + ",remove"}, ends)
						if s.Outcome != bench.OK || !slices.Contains(s.Notes, lifecycle.NoteEndedEarly) {
							t.Fatalf("%s: %q, notes %q", s.Outcome, s.Reason, s.Notes)
						}
						for i, m := range w.Metrics() {
							if v, ok := s.Value(i); ok && (strings.HasPrefix(m.Name, end) || strings.HasPrefix(m.Name, lifecycle.Total)) {
								t.Errorf("%s = %v", m.Name, v)
							}
						}
						if got := series(s); len(got[end])+len(got[lifecycle.Total]) > 0 {
							t.Errorf("the series of %s and of the total: %v", end, got)
						}
					})
				})
			}
		}
	}
}
