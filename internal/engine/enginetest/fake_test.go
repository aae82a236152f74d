package enginetest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

var (
	_ bench.Engine          = (*enginetest.Fake)(nil)
	_ bench.Pauser          = (*enginetest.Fake)(nil)
	_ bench.Execer          = (*enginetest.Fake)(nil)
	_ bench.Signaler        = (*enginetest.Fake)(nil)
	_ bench.Stopper         = (*enginetest.Fake)(nil)
	_ bench.ProcessReporter = (*enginetest.Fake)(nil)
	_ bench.Restarter       = (*enginetest.Fake)(nil)
)

func TestFakeConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Options{
		Open: func(testing.TB, enginetest.Env) bench.Engine {
			return enginetest.NewFake(enginetest.FakeConfig{
				Takes: map[enginetest.Op]time.Duration{enginetest.OpCreate: time.Millisecond},
			})
		},
		Simulated: true,
	})
}

// runContainer takes one container through its life, and returns when each call has
// returned.
func runContainer(t *testing.T, f *enginetest.Fake) (times []time.Duration, mark agent.Mark) {
	t.Helper()
	ctx, began := t.Context(), time.Now()
	note := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	c, err := f.Create(ctx, bench.Spec{})
	note(err)
	var out bytes.Buffer
	note(c.Attach(ctx, &out, nil))
	note(c.Start(ctx))
	_, err = c.Wait(ctx)
	note(err)
	note(c.Remove(ctx))
	mark, err = agent.ParseMark(out.Bytes())
	note(err)
	return times, mark
}

func TestFakeTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := enginetest.NewFake(enginetest.FakeConfig{
			Takes: map[enginetest.Op]time.Duration{
				enginetest.OpCreate: 5, enginetest.OpStart: 20, enginetest.OpRun: 300, enginetest.OpRemove: 1000,
			},
			Now: func() time.Duration { return time.Since(began) },
		})
		times, mark := runContainer(t, f)
		if want := []time.Duration{5, 5, 25, 325, 1325, 1325}; !slices.Equal(times, want) {
			t.Errorf("calls return after %v, want %v", times, want)
		}
		if want := (agent.Mark{First: 25, Last: 325}); mark != want {
			t.Errorf("mark = %v, want %v", mark, want)
		}
		want := []string{"create 1", "attach 1", "start 1", "wait 1", "run 1", "remove 1"}
		got := f.Calls()
		slices.Sort(got[3:5]) // begin at the same instant
		slices.Sort(want[3:5])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if f.Live() != 0 {
			t.Errorf("%d containers live, want none", f.Live())
		}
	})
}

func TestFakeIsDeterministic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lives := func(seed uint64) (all [][]time.Duration) {
			f := enginetest.NewFake(enginetest.FakeConfig{
				Seed: seed, Jitter: 0.1,
				Takes: map[enginetest.Op]time.Duration{enginetest.OpCreate: time.Second, enginetest.OpStart: time.Second},
				Now:   func() time.Duration { return time.Hour },
			})
			for range 3 {
				times, _ := runContainer(t, f)
				all = append(all, times)
			}
			return all
		}
		if diff := cmp.Diff(lives(1), lives(1)); diff != "" {
			t.Errorf("the same seed gives different times:\n%s", diff)
		}
		if cmp.Equal(lives(1), lives(2)) {
			t.Error("different seeds give the same times")
		}
		for _, times := range lives(3) {
			if create := times[0]; create < 900*time.Millisecond || create > 1100*time.Millisecond {
				t.Errorf("create takes %v, want 1 s ± 10 %%", create)
			}
		}
	})
}

func TestFakeFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name  string
		fault enginetest.Fault
		limit time.Duration // of the context
		after time.Duration // when Start returns
		want  error
	}{
		{"fails", enginetest.Fault{Op: enginetest.OpStart, Call: 1, Err: broken}, time.Hour, 0, broken},
		{"is slow", enginetest.Fault{Op: enginetest.OpStart, Delay: time.Minute}, time.Hour, time.Minute, nil},
		{"hangs", enginetest.Fault{Op: enginetest.OpStart, Delay: enginetest.Forever}, time.Hour, time.Hour, context.DeadlineExceeded},
		{"is deaf", enginetest.Fault{Op: enginetest.OpStart, Delay: 2 * time.Hour, IgnoresContext: true}, time.Hour, 2 * time.Hour, nil},
		{"another call", enginetest.Fault{Op: enginetest.OpStart, Call: 2, Err: broken}, time.Hour, 0, nil},
		{"another operation", enginetest.Fault{Op: enginetest.OpWait, Err: broken}, time.Hour, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := enginetest.NewFake(enginetest.FakeConfig{Faults: []enginetest.Fault{test.fault}})
				c, err := f.Create(t.Context(), bench.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				began := time.Now()
				if err := c.Start(ctx); !errors.Is(err, test.want) || time.Since(began) != test.after {
					t.Errorf("Start = %v after %v, want %v after %v", err, time.Since(began), test.want, test.after)
				}
				if err := c.Remove(t.Context()); err != nil {
					t.Errorf("Remove: %v", err)
				}
			})
		})
	}
}

func TestFakeRemoveFailsOnce(t *testing.T) {
	broken := errors.New("broken")
	f := enginetest.NewFake(enginetest.FakeConfig{
		Faults: []enginetest.Fault{{Op: enginetest.OpRemove, Call: 1, Err: broken}},
	})
	c, err := f.Create(t.Context(), bench.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context()); !errors.Is(err, broken) || f.Live() != 1 {
		t.Errorf("Remove = %v with %d live, want it to fail and the container to stay", err, f.Live())
	}
	if err := c.Remove(t.Context()); err != nil || f.Live() != 0 {
		t.Errorf("Remove again = %v with %d live, want the container gone", err, f.Live())
	}
}

func TestFakeClockOffset(t *testing.T) {
	f := enginetest.NewFake(enginetest.FakeConfig{ClockOffset: 1000 * time.Hour})
	if _, mark := runContainer(t, f); mark.First < 1000*time.Hour {
		t.Errorf("mark = %v, want it by a clock that is 1000 h ahead", mark)
	}
}

func TestFakeMisapplies(t *testing.T) {
	f := enginetest.NewFake(enginetest.FakeConfig{Applied: func(a *bench.Applied) { a.Limits.Memory /= 2 }})
	spec := bench.Spec{Limits: bench.Limits{Memory: 1 << 20}}
	c, err := f.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := c.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.Attest(spec, applied); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("Attest = %v, want bench.ErrMismatch", err)
	}
}

// The operations take their time and fail as they are told to, in synctest.
func TestFakeOperations(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewFake(enginetest.FakeConfig{
			Takes: map[enginetest.Op]time.Duration{
				enginetest.OpCreate: 7, enginetest.OpPause: 1, enginetest.OpResume: 20, enginetest.OpExec: 300,
				enginetest.OpSignal: 4000, enginetest.OpStop: 50000,
			},
			Faults: []enginetest.Fault{{Op: enginetest.OpExec, Call: 2, Err: broken}},
		})
		ctx := t.Context()
		c, err := f.Create(ctx, bench.Spec{Argv: []string{agent.Path, "mark", "hold"}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := errors.Join(c.Attach(ctx, &out, nil), c.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		exec := func() error { _, err := f.Exec(ctx, c, []string{agent.Path, "exit", "0"}, nil, nil); return err }
		began := time.Now()
		for i, do := range []struct {
			do    func() error
			after time.Duration
			want  error
		}{
			{func() error { return f.Pause(ctx, c) }, 1, nil},
			{func() error { return f.Resume(ctx, c) }, 21, nil},
			{exec, 321, nil},
			{exec, 621, broken},
			{func() error { return f.Stop(ctx, c, time.Hour) }, 50621, nil},
		} {
			if err := do.do(); !errors.Is(err, do.want) || time.Since(began) != do.after {
				t.Errorf("call %d: %v after %v, want %v after %v", i, err, time.Since(began), do.want, do.after)
			}
		}
		if exit, err := c.Wait(ctx); err != nil || exit != (bench.Exit{}) {
			t.Errorf("mark hold was stopped: %v, %v; want exit status 0", exit, err)
		}
		if err := f.Signal(ctx, c, syscall.SIGTERM); err == nil {
			t.Error("a container that has exited is signalled")
		}
		if _, err := agent.ParseMark(out.Bytes()); err != nil {
			t.Error(err)
		}
		if err := c.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
}
