package run_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/schedule"
)

// The exact order of everything around two cells, one warm-up block and one
// measured block.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bench.Plan{Warmup: 1, MaxBlocks: 1, MinBlocks: 1, Seed: 3, Hooks: []bench.Hook{
			{When: bench.BeforeRun, Do: bench.HookCommand, Argv: []string{"begin"}},
			{When: bench.BeforeBlock, Do: bench.HookRestartEngine},
			{When: bench.BeforeTrial, Do: bench.HookDropCaches},
			{When: bench.AfterRun, Do: bench.HookCommand, Argv: []string{"finish"}},
		}}
		var b *harness
		b = newHarness(t, p, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			b.journal.add("run %s size=%s", task.Engine.Name(), task.Params["size"])
			return work(time.Millisecond)(ctx, task, m)
		}, "a")
		b.options.Command = func(_ context.Context, argv []string) error { b.journal.add("command %s", argv[0]); return nil }
		b.options.Observe = func(e run.Event) { b.journal.add("%T", e) }
		end, err := run.Run(t.Context(), b.options)
		if err != nil {
			t.Fatal(err)
		}
		if end.Reason != bench.StopBlocks || b.writer.end == nil {
			t.Errorf("stopped for %q, finished %v; want %q, finished", end.Reason, b.writer.end != nil, bench.StopBlocks)
		}
		trial := []string{
			"run.TrialBegan", "drop caches", "prepare a", "settle", "before", "run a size=1", "after", "run.HookEnded",
			"store ok", "run.TrialEnded",
		}
		want := []string{"run.Began", "command begin", "run.HookEnded"}
		for range 2 {
			want = append(append(want, "restart a", "run.HookEnded"), trial...)
		}
		want = append(want, "command finish", "run.HookEnded", "run.Ended")
		if diff := cmp.Diff(want, b.journal.lines); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, func(_ context.Context, _ bench.Task, m bench.Meter) error {
			m.Note("remarkable")
			if err := m.Applied(bench.Spec{}, bench.Applied{Network: "none"}); err != nil {
				return err
			}
			return timed(m, func() error { time.Sleep(7 * time.Millisecond); return nil })
		}, "a")
		began := time.Now().UTC()
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		want := bench.Sample{
			Began: began, Elapsed: 7 * time.Millisecond, Counted: 7 * time.Millisecond, Outcome: bench.OK,
			Values:  []float64{0.007, math.NaN(), 1, math.NaN()},
			Applied: &bench.Applied{Network: "none"}, Notes: []string{"remarkable"},
		}
		if diff := cmp.Diff(want, b.writer.samples[0], cmp.Comparer(sameFloat)); diff != "" {
			t.Errorf("sample (-want +got):\n%s", diff)
		}
	})
}

// What the host's counters span is the workload alone: neither hooks and the washout
// before it nor what is cleaned up after it.
func TestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := bench.Hook{When: bench.BeforeTrial, Do: bench.HookCommand, Argv: []string{"wait"}}
		p := bench.Plan{MaxBlocks: 2, Hooks: []bench.Hook{hook}}
		fail := false
		b := newHarness(t, p, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if fail {
				return errors.New("it broke")
			}
			fail = true
			return work(7*time.Millisecond)(ctx, task, m)
		}, "a")
		b.options.Command = func(context.Context, []string) error { time.Sleep(300 * time.Millisecond); return nil }
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if s := b.writer.samples[0]; s.Counted != 7*time.Millisecond || s.Elapsed != 307*time.Millisecond {
			t.Errorf("counted for %v of %v, want 7ms of 307ms", s.Counted, s.Elapsed)
		}
		if s := b.writer.samples[1]; s.Outcome != bench.Failed || s.Counted != 0 {
			t.Errorf("%s: counted for %v, want failed and nothing", s.Outcome, s.Counted)
		}
	})
}

// A workload is told what is compared with what, and of a resumed run what its last
// value in the same cell was.
func TestTaskOfAResumedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		b := newHarness(t, bench.Plan{MaxBlocks: 3}, func(_ context.Context, task bench.Task, _ bench.Meter) error {
			work, known := task.EarlierValue("work")
			_, other := task.EarlierValue("nobody's")
			told = append(told, fmt.Sprint(task.Engine.Name(), " ", task.Condition, " ", work, known, other))
			return nil
		}, "a", "b")
		b.options.Header.Plan.Cells[0].Condition, b.options.Header.Plan.Cells[1].Condition = "x=1", "x=2"
		b.options.Header.Schedule = [][]int{{0, 1}, {0, 1}, {0, 1}}
		for i, s := range []bench.Sample{
			{Outcome: bench.OK, Values: []float64{1, math.NaN(), 0, 0}},
			{Trial: bench.Trial{Cell: 1}, Outcome: bench.Failed},
			{Outcome: bench.OK, Values: []float64{2, math.NaN(), 0, 0}},
			{Trial: bench.Trial{Cell: 1}, Outcome: bench.Failed},
		} {
			s.Trial.Seq, s.Trial.Block = i, i/2
			b.options.Done, b.writer.samples = append(b.options.Done, s), append(b.writer.samples, s)
		}
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a x=1 2 true false", "b x=2 0 false false"}, told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func sameFloat(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// A trial in which tare itself stood still has failed; the next one has not.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops := int64(0)
		trials := 0
		b := newHarness(t, bench.Plan{MaxBlocks: 2}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if trials++; trials == 1 {
				stops++
			}
			return work(time.Millisecond)(ctx, task, m)
		}, "a")
		b.options.Stopped = func() int64 { return stops }
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if got := b.writer.samples[0]; got.Outcome != bench.Failed || !strings.Contains(got.Reason, "tare was stopped") ||
			got.Values != nil {
			t.Errorf("%s, %q, values %v; want a failure that says that tare was stopped", got.Outcome, got.Reason, got.Values)
		}
		if got := b.writer.samples[1]; got.Outcome != bench.OK {
			t.Errorf("the trial after it: %s, %q; want %s", got.Outcome, got.Reason, bench.OK)
		}
	})
}

// Each way in which a trial can go wrong is one sample, with the operation and
// the reason, without values, and the run goes on.
func TestFailures(t *testing.T) {
	errBroken := errors.New("it broke")
	hang := func(ctx context.Context, _ bench.Task, m bench.Meter) error {
		return timed(m, func() error { <-ctx.Done(); return ctx.Err() })
	}
	tests := []struct {
		name      string
		run       func(context.Context, bench.Task, bench.Meter) error
		outcome   bench.Outcome
		operation string
		reason    string
	}{
		{"operation fails", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			return timed(m, func() error { return errBroken })
		}, bench.Failed, "work", "work: it broke"},
		{"operation hangs", hang, bench.TimedOut, "work", "work: the operation reached its time limit of 10s"},
		{"trial hangs", func(ctx context.Context, _ bench.Task, _ bench.Meter) error {
			<-ctx.Done()
			return ctx.Err()
		}, bench.TimedOut, "trial", "trial: the trial reached its time limit"},
		{"comes back after its limit", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			return timed(m, func() error { time.Sleep(11 * time.Second); return nil })
		}, bench.TimedOut, "work", "work: the operation reached its time limit of 10s"},
		{"clean-up fails", func(ctx context.Context, task bench.Task, m bench.Meter) error {
			m.Cleanup(func(context.Context) error { return errBroken })
			return work(1)(ctx, task, m)
		}, bench.Failed, "clean-up", "clean-up: it broke"},
		{"operation and clean-up fail", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			_, err := m.Step("inspect", func() error { return errors.New("no answer") })
			m.Cleanup(func(context.Context) error { return errBroken })
			return err
		}, bench.Failed, "inspect", "inspect: no answer; then clean-up: it broke"},
		{"undeclared metric", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			m.Record("speed", 1)
			return nil
		}, bench.Failed, "", `the workload reports "speed", which it does not declare`},
		{"metric twice", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			m.Record("extra", 1)
			m.Record("extra", 2)
			return nil
		}, bench.Failed, "", `the workload reports "extra" twice`},
		{"not a number", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			m.Record("extra", math.Inf(1))
			return nil
		}, bench.Failed, "", `the workload reports +Inf for "extra"`},
		{"mismatch", func(_ context.Context, _ bench.Task, m bench.Meter) error {
			return m.Applied(bench.Spec{Network: "host"}, bench.Applied{Network: "none"})
		}, bench.Failed, "", "the engine did not apply what was asked for: network: asked for host, got none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newHarness(t, bench.Plan{MaxBlocks: 2}, tt.run, "a")
				if _, err := run.Run(t.Context(), b.options); err != nil {
					t.Fatal(err)
				}
				if n := len(b.writer.samples); n != 2 {
					t.Fatalf("%d samples, want 2: the run goes on after a failure", n)
				}
				got := b.writer.samples[0]
				if got.Outcome != tt.outcome || got.Operation != tt.operation || got.Reason != tt.reason || got.Values != nil {
					t.Errorf("got %s, operation %q, reason %q, values %v; want %s, %q, %q, none",
						got.Outcome, got.Operation, got.Reason, got.Values, tt.outcome, tt.operation, tt.reason)
				}
			})
		})
	}
}

// A report has words for what a workload declares.
func TestUndeclaredNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			m.Note("odd")
			return work(1)(ctx, task, m)
		}, "a")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		const want = `the workload attaches note "odd", which it does not declare`
		if s := b.writer.samples[0]; s.Outcome != bench.Failed || s.Reason != want || s.Notes != nil {
			t.Errorf("%s: %q, notes %q; want failed: %q, without notes", s.Outcome, s.Reason, s.Notes, want)
		}
	})
}

func TestPrepareFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, work(1), "a", "b")
		b.options.Engines["b"].(*engine).prepare = errors.New("no such image")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.writer.samples {
			name := b.options.Header.Plan.Cells[s.Trial.Cell].Name
			if name == "a" && s.Outcome != bench.OK || name == "b" && (s.Outcome != bench.Failed || s.Operation != "preparation") {
				t.Errorf("%s: %s %s %q", name, s.Outcome, s.Operation, s.Reason)
			}
		}
	})
}

// A cell that fails three times in a row is skipped from then on; the others
// get the time.
func TestGivesUpOnACell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 10}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if task.Engine.Name() == "bad" {
				return errors.New("always")
			}
			return work(1)(ctx, task, m)
		}, "good", "bad")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		want := map[bench.Outcome]int{bench.OK: 10, bench.Failed: 3, bench.Skipped: 7}
		if diff := cmp.Diff(want, outcomes(b.writer.samples)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		for _, s := range b.writer.samples {
			if s.Outcome == bench.Skipped &&
				!strings.Contains(s.Reason, "given up after 3 failed trials in a row; last failure: always") {
				t.Errorf("skipped for %q", s.Reason)
			}
		}
	})
}

func TestStops(t *testing.T) {
	tests := []struct {
		name    string
		plan    bench.Plan
		precise int // blocks after which precision is reached
		fails   bool
		reason  bench.StopReason
		samples int
	}{
		{"at the last block", bench.Plan{MaxBlocks: 4}, 0, false, bench.StopBlocks, 8},
		{"on precision", bench.Plan{MaxBlocks: 40, MinBlocks: 3}, 5, false, bench.StopPrecision, 10},
		{"not on precision before the least blocks", bench.Plan{MaxBlocks: 40, MinBlocks: 9}, 5, false, bench.StopPrecision, 18},
		{"after the block that uses up the budget", bench.Plan{MaxBlocks: 40, Budget: 5 * time.Second}, 0, false, bench.StopBudget, 6},
		{"after a block at least", bench.Plan{Warmup: 1, MaxBlocks: 40, Budget: time.Second}, 0, false, bench.StopBudget, 4},
		{"when nothing can go on", bench.Plan{MaxBlocks: 40}, 0, true, bench.StopAllFailed, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newHarness(t, tt.plan, func(ctx context.Context, task bench.Task, m bench.Meter) error {
					if tt.fails {
						return errors.New("no")
					}
					return work(time.Second)(ctx, task, m)
				}, "a", "b")
				if tt.precise > 0 {
					b.options.Precision = &precision{after: 2 * tt.precise}
				}
				end, err := run.Run(t.Context(), b.options)
				if err != nil {
					t.Fatal(err)
				}
				if end.Reason != tt.reason || len(b.writer.samples) != tt.samples {
					t.Errorf("stopped for %q after %d samples, want %q after %d",
						end.Reason, len(b.writer.samples), tt.reason, tt.samples)
				}
			})
		})
	}
}

// precision is reached after a number of samples.
type precision struct{ seen, after int }

func (p *precision) Add(bench.Sample) { p.seen++ }
func (p *precision) Reached() bool    { return p.seen >= p.after }

// The first interruption lets the trial in flight finish: no trial is lost,
// and none is a hole.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 5}, work(time.Second), "a", "b")
		interrupt := make(chan struct{})
		b.options.Interrupt = interrupt
		go func() { time.Sleep(2500 * time.Millisecond); close(interrupt) }()
		_, err := run.Run(t.Context(), b.options)
		if !errors.Is(err, run.ErrInterrupted) {
			t.Fatalf("error %v, want ErrInterrupted", err)
		}
		if n := outcomes(b.writer.samples)[bench.OK]; n != 3 || len(b.writer.samples) != 3 || b.writer.end != nil {
			t.Errorf("%d samples, %d of them ok, finished %v; want 3, 3, unfinished",
				len(b.writer.samples), n, b.writer.end != nil)
		}
	})
}

// Ending the context cuts the trial short, which is a sample too, and cleans up.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaned := false
		b := newHarness(t, bench.Plan{MaxBlocks: 5}, func(ctx context.Context, _ bench.Task, m bench.Meter) error {
			defer m.Cleanup(func(ctx context.Context) error { cleaned = ctx.Err() == nil; return nil })
			return timed(m, func() error { <-ctx.Done(); return ctx.Err() })
		}, "a")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		_, err := run.Run(ctx, b.options)
		if !errors.Is(err, run.ErrInterrupted) || !cleaned {
			t.Fatalf("error %v, cleaned up %v; want ErrInterrupted, true", err, cleaned)
		}
		if diff := cmp.Diff(map[bench.Outcome]int{bench.Canceled: 1}, outcomes(b.writer.samples)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

// A trial that ignores the end of its context ends the run, with a sample.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newHarness(t, bench.Plan{MaxBlocks: 5}, func(context.Context, bench.Task, bench.Meter) error {
			<-release
			return nil
		}, "a")
		_, err := run.Run(t.Context(), b.options)
		close(release)
		if err == nil || !strings.Contains(err.Error(), "did not return after its time limit") {
			t.Fatalf("error %v, want one that says that the trial does not return", err)
		}
		if diff := cmp.Diff(map[bench.Outcome]int{bench.TimedOut: 1}, outcomes(b.writer.samples)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

// However often a run is interrupted and resumed, it ends with the trials of
// an undisturbed one.
func TestResumeEndsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bench.Plan{MaxBlocks: 6, Warmup: 1, Seed: 11}
		whole := newHarness(t, p, work(time.Second), "a", "b", "c")
		if _, err := run.Run(t.Context(), whole.options); err != nil {
			t.Fatal(err)
		}
		broken := newHarness(t, p, work(time.Second), "a", "b", "c")
		for range 100 {
			interrupt := make(chan struct{})
			broken.options.Interrupt = interrupt
			broken.options.Done = broken.writer.samples
			timer := time.AfterFunc(1700*time.Millisecond, func() { close(interrupt) })
			defer timer.Stop()
			if _, err := run.Run(t.Context(), broken.options); err == nil {
				break
			}
		}
		trials := func(all []bench.Sample) (out []bench.Trial) {
			for _, s := range all {
				out = append(out, s.Trial)
			}
			return out
		}
		if diff := cmp.Diff(trials(whole.writer.samples), trials(broken.writer.samples)); diff != "" {
			t.Errorf("trials (-undisturbed +resumed):\n%s", diff)
		}
		if broken.writer.end == nil {
			t.Error("the resumed run never finished")
		}
	})
}

// The trials of a block draw with the same seed, those of another block with another one.
func TestSeedOfTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seeds []uint64
		p := bench.Plan{MaxBlocks: 2, Seed: 11}
		b := newHarness(t, p, func(_ context.Context, task bench.Task, _ bench.Meter) error {
			seeds = append(seeds, task.Seed)
			return nil
		}, "a", "b")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		first, second := schedule.Seed(11, 0), schedule.Seed(11, 1)
		if diff := cmp.Diff([]uint64{first, first, second, second}, seeds); diff != "" {
			t.Errorf("seeds (-want +got):\n%s", diff)
		}
	})
}

// An extension has one block, however little time it has; what is only resumed has none.
func TestExtensionHasABlock(t *testing.T) {
	for _, extended := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newHarness(t, bench.Plan{MaxBlocks: 40, Budget: 2 * time.Second}, work(time.Second), "a", "b")
			if end, err := run.Run(t.Context(), b.options); err != nil || end.Reason != bench.StopBudget ||
				len(b.writer.samples) != 2 {
				t.Fatalf("%d trials, ended with %v: %v; want one block", len(b.writer.samples), end, err)
			}
			want := 2
			b.options.Done = b.writer.samples
			if extended {
				b.options.Extended, want = len(b.options.Done), 4
			}
			end, err := run.Run(t.Context(), b.options)
			if err != nil || end.Reason != bench.StopBudget || len(b.writer.samples) != want {
				t.Errorf("extended: %v: %d trials, ended with %v: %v; want %d", extended, len(b.writer.samples), end, err, want)
			}
		})
	}
}

func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 5}, work(time.Second), "a")
		b.writer.full = 2
		_, err := run.Run(t.Context(), b.options)
		if !errors.Is(err, errDiskFull) || !strings.Contains(err.Error(), "store trial 2") {
			t.Errorf("error %v, want one that wraps the store's and names trial 2", err)
		}
		if len(b.writer.samples) != 2 || b.writer.end != nil {
			t.Errorf("%d samples, finished %v; want 2, unfinished", len(b.writer.samples), b.writer.end != nil)
		}
	})
}

func TestHookFails(t *testing.T) {
	for _, when := range []bench.HookTime{bench.BeforeRun, bench.BeforeBlock, bench.BeforeTrial, bench.AfterRun} {
		t.Run(string(when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := bench.Plan{
					MaxBlocks: 1, Hooks: []bench.Hook{{When: when, Do: bench.HookCommand, Argv: []string{"sync", "-x"}}},
				}
				b := newHarness(t, p, work(1), "a")
				b.options.Command = func(context.Context, []string) error { return errors.New("exit status 1") }
				_, err := run.Run(t.Context(), b.options)
				want := fmt.Sprintf("hook %s command sync -x: exit status 1", when)
				if err == nil || err.Error() != want {
					t.Errorf("error %v, want %s", err, want)
				}
			})
		})
	}
}

// What a hook before the run set up is taken down after an interruption too,
// and a block that is taken up in its middle is made ready again.
func TestHooksOfAnInterruptedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := func(when bench.HookTime) bench.Hook {
			return bench.Hook{When: when, Do: bench.HookCommand, Argv: []string{string(when)}}
		}
		p := bench.Plan{
			MaxBlocks: 1, Hooks: []bench.Hook{hook(bench.BeforeRun), hook(bench.BeforeBlock), hook(bench.AfterRun)},
		}
		b := newHarness(t, p, work(time.Second), "a", "b")
		var ran []string
		b.options.Command = func(_ context.Context, argv []string) error { ran = append(ran, argv[0]); return nil }
		interrupt := make(chan struct{})
		b.options.Interrupt = interrupt
		time.AfterFunc(500*time.Millisecond, func() { close(interrupt) })
		if _, err := run.Run(t.Context(), b.options); !errors.Is(err, run.ErrInterrupted) {
			t.Fatalf("error %v, want ErrInterrupted", err)
		}
		b.options.Interrupt, b.options.Done = nil, b.writer.samples
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		sitting := []string{"before-run", "before-block", "after-run"}
		if diff := cmp.Diff(append(sitting, sitting...), ran); diff != "" {
			t.Errorf("hooks of two sittings (-want +got):\n%s", diff)
		}
	})
}

// An engine that ignores the end of its context while it prepares is left behind too.
func TestStuckPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 5}, work(1), "a")
		release := make(chan struct{})
		b.options.Engines["a"] = stuckEngine{b.options.Engines["a"], release}
		_, err := run.Run(t.Context(), b.options)
		close(release)
		if err == nil || len(b.writer.samples) != 1 || b.writer.samples[0].Outcome != bench.TimedOut {
			t.Errorf("error %v, samples %+v; want an error and one that timed out", err, b.writer.samples)
		}
	})
}

type stuckEngine struct {
	bench.Engine
	release chan struct{}
}

func (e stuckEngine) Prepare(context.Context, bench.Spec) error { <-e.release; return nil }

// What an engine refuses it is asked for once; the trials after that say the same.
func TestRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 3}, work(time.Millisecond), "a", "b")
		b.options.Engines["b"].(*engine).prepare = fmt.Errorf("%w: no runtime", bench.ErrUnsupported)
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.writer.samples {
			if s.Trial.Cell == 1 &&
				(s.Outcome != bench.Unsupported || s.Operation != "preparation" || s.Reason != "not supported here: no runtime") {
				t.Errorf("trial %d: %s in %q: %q", s.Trial.Seq, s.Outcome, s.Operation, s.Reason)
			}
		}
		if n := strings.Count(strings.Join(b.journal.lines, "\n"), "prepare b"); n != 1 {
			t.Errorf("b was asked %d times, want once", n)
		}
	})
}

// A plan of which every cell is refused is known before its first trial; one cell that is
// not is enough for a run.
func TestRefusedBefore(t *testing.T) {
	refusal := fmt.Errorf("%w: no runtime", bench.ErrUnsupported)
	for name, test := range map[string]struct {
		a, b error
		want []error
	}{
		"both":    {refusal, refusal, []error{refusal, refusal}},
		"one":     {refusal, nil, nil},
		"none":    {nil, nil, nil},
		"failing": {refusal, errors.New("the daemon is gone"), nil}, // which is for the trials to find out
	} {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, work(time.Millisecond), "a", "b")
		b.options.Engines["a"].(*engine).prepare, b.options.Engines["b"].(*engine).prepare = test.a, test.b
		if got := run.Refused(t.Context(), b.options); !slices.Equal(got, test.want) {
			t.Errorf("%s refused: %v, want %v", name, got, test.want)
		}
		if len(b.writer.samples) > 0 {
			t.Errorf("%s refused: %d trials were stored", name, len(b.writer.samples))
		}
	}
}

// A barrier is asked before each block, told why the run would end, and decides.
func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{Warmup: 1, MaxBlocks: 9, MinBlocks: 1, Budget: 3 * time.Millisecond},
			work(2*time.Millisecond), "a")
		var asked []string
		b.options.Barrier = func(_ context.Context, block int, reason bench.StopReason) (bench.StopReason, error) {
			asked = append(asked, fmt.Sprint(block, reason))
			if block == 4 {
				return bench.StopPrecision, nil
			}
			return "", nil
		}
		end, err := run.Run(t.Context(), b.options)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"-1", "0", "1budget", "2budget", "3budget", "4budget"}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		if end.Reason != bench.StopPrecision || len(b.writer.samples) != 5 {
			t.Errorf("ended for %q after %d trials, want the barrier's reason after 5", end.Reason, len(b.writer.samples))
		}
	})
}

// A barrier that fails ends the run.
func TestBarrierFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 3}, work(time.Millisecond), "a")
		b.options.Barrier = func(_ context.Context, block int, _ bench.StopReason) (bench.StopReason, error) {
			if block == 1 {
				return "", run.ErrInterrupted
			}
			return "", nil
		}
		if _, err := run.Run(t.Context(), b.options); !errors.Is(err, run.ErrInterrupted) || b.writer.end != nil {
			t.Errorf("Run = %v, finished: %v; want an interrupted run", err, b.writer.end != nil)
		}
		if len(b.writer.samples) != 1 {
			t.Errorf("%d trials, want those of the block before", len(b.writer.samples))
		}
	})
}
