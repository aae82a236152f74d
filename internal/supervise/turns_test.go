package supervise_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
	"github.com/tare-bench/tare/internal/supervise"
)

// alone gives a cell every turn at once, and calls do before each.
type alone struct {
	turns, stages int
	do            func(turn int)
}

func (a *alone) On() bool { return true }

func (a *alone) Part(int) {}

func (a *alone) WaitSettled(ctx context.Context) error {
	_, err := a.Wait(ctx, true)
	return err
}

func (a *alone) Wait(ctx context.Context, begins bool) (time.Duration, error) {
	a.turns++
	if begins {
		a.stages++
	}
	if a.do != nil {
		a.do(a.turns)
	}
	return 2 * time.Millisecond, context.Cause(ctx)
}

// Loads of one process take turns in every kind of container, report what they always report, and measure a stretch
// that nothing interrupts. One that must not be interrupted has one turn.
func TestTakeTurns(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, e, bench.Limits{}, "load", turn.Option, "memory", "time=60ms", "size=1MiB",
				agent.LoadSeparator, "memory", "time=160ms", "size=4MiB", "pages=auto",
				agent.LoadSeparator, "cpu", "time=60ms", "kernels=prime", "threads=2")
			from := &alone{}
			if err := p.TakeTurns(t.Context(), from); err != nil {
				t.Fatal(err)
			}
			reports, err := p.Reports(t.Context(), 3)
			if err != nil {
				t.Fatal(err)
			}
			whole, huge, sliced := reports[0], reports[1], reports[2]
			normal := slices.Contains(huge.Notes, "memory-normal-pages") // the kernel has no huge ones, or too few
			if one := len(huge.Slices) == 0 && huge.Values["memory.copy"+load.StretchSuffix] == 0; one != normal {
				t.Errorf("memory in huge pages: %v: %+v", !normal, huge)
			}
			if whole.Values["memory.copy"] <= 0 || len(whole.Slices) > 0 || whole.Turns.Turns > 2 || whole.Measured < 0.05 {
				t.Errorf("memory, which has one turn: %+v", whole)
			}
			if sliced.Values["cpu.single"] <= 0 || sliced.Values["cpu.single"+load.StretchSuffix] <= 0 ||
				len(sliced.Slices["cpu.single_done"]) == 0 || sliced.Measured < 0.05 {
				t.Errorf("cpu, in slices: %+v", sliced)
			}
			if c := sliced.Turns; c.Turns < 5 || c.Spent <= 0 || c.Lost <= 0 || c.Lost > c.Spent {
				t.Errorf("the turns of cpu have cost %+v", c)
			}
			// The whole of memory; one thread, two threads, and the stretch.
			if from.stages < 1+3 || from.turns <= from.stages {
				t.Errorf("%d stages in %d turns", from.stages, from.turns)
			}
		})
	}
}

// A process that rests does nothing: whatever happens in the turns of others, its counters stand still. What it does in
// its own turns they count.
func TestCountersInTurns(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			// Long enough for the kernel's steps of CPU time, which are of 10 ms.
			p, _ := start(t, e, bench.Limits{}, "load", turn.Option, "cpu", "time=1s", "kernels=prime", "threads=1")
			resting, working := counterSums{of: map[string]float64{}}, counterSums{of: map[string]float64{}}
			from := &alone{do: func(turn int) {
				supervise.Record(working, p.CountNew(t.Context()))
				for began := time.Now(); turn%10 == 0 && time.Since(began) < 20*time.Millisecond; { // another cell works
				}
				supervise.Record(resting, p.CountNew(t.Context()))
			}}
			if err := p.TakeTurns(t.Context(), from); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Reports(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			supervise.Record(working, p.CountNew(t.Context()))
			for _, counter := range []string{"user_time", "page_faults", "preemptions"} {
				rests, works := resting.of[supervise.Inside+counter], working.of[supervise.Inside+counter]
				if rests > works/10 {
					t.Errorf("%s: %v while it rests, %v in its turns", counter, rests, works)
				}
			}
			const packets = supervise.Inside + "net_packets"
			if _, known := working.of[packets]; known != (name != "native") { // the host's are of all cells
				t.Errorf("%s are known: %t", packets, known)
			}
			if s := working.of[supervise.Inside+"user_time"]; s < 0.05 {
				t.Errorf("it computes for 1s, and its turns have %v s of CPU time", s)
			}
		})
	}
}

// counterSums adds up counters.
type counterSums struct {
	bench.Discard
	of map[string]float64
}

func (c counterSums) Record(metric string, value float64) { c.of[metric] += value }

// A process that dies while others have the turn, and one that stops in its own.
func TestTurnsOfBrokenProcesses(t *testing.T) {
	enough := errors.New("enough")
	for name, test := range map[string]struct {
		signal syscall.Signal
		want   string
	}{"dies": {syscall.SIGKILL, "ended with"}, "stops": {syscall.SIGSTOP, enough.Error()}} {
		t.Run(name, func(t *testing.T) {
			e := engines(t)["native"]
			p, _ := start(t, e, bench.Limits{}, "load", turn.Option, "cpu", "time=1s", "kernels=prime")
			reporter, ok := bench.As[bench.ProcessReporter](e)
			if !ok {
				t.Fatal("native does not tell its processes")
			}
			pid, err := reporter.Pid(t.Context(), p.Container())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			from := &alone{do: func(turn int) {
				if turn == 5 {
					if err := syscall.Kill(pid, test.signal); err != nil {
						t.Error(err)
					}
					time.AfterFunc(300*time.Millisecond, func() { cancel(enough) })
				}
			}}
			if err := p.TakeTurns(ctx, from); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Reports(ctx, 1); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Reports = %v, want %q", err, test.want)
			}
		})
	}
}

// A container that is paused in its turn, and an engine that does not answer any more while the process
// inside lives on: the one reaches its limit, the other is told at once.
func TestTurnsOfBrokenContainers(t *testing.T) {
	e := engines(t)["floor"]
	pauser, ok := bench.As[bench.Pauser](e)
	if !ok {
		t.Fatal("the floor cannot pause")
	}
	enough, gone := errors.New("enough"), errors.New("the daemon is gone")
	for name, want := range map[string]error{"paused": enough, "daemon": gone} {
		t.Run(name, func(t *testing.T) {
			dying := &mortal{Engine: e, died: make(chan struct{}), why: gone}
			p, _ := start(t, dying, bench.Limits{}, "load", turn.Option, "cpu", "time=1s", "kernels=prime")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			from := &alone{do: func(turn int) {
				switch {
				case turn == 5 && name == "daemon":
					close(dying.died)
					time.Sleep(50 * time.Millisecond) // others have their turns
				case turn == 5:
					if err := pauser.Pause(t.Context(), dying.container); err != nil {
						t.Error(err)
					}
					time.AfterFunc(200*time.Millisecond, func() { cancel(enough) })
				case turn > 6:
					t.Error("it gets turns all the same")
				}
			}}
			if err := p.TakeTurns(ctx, from); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Reports(ctx, 1); err == nil || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("Reports = %v, want %v", err, want)
			}
			if name == "paused" { // and it gets no turns for what comes after that
				if _, err := p.Reports(t.Context(), 1); err == nil || !strings.Contains(err.Error(), want.Error()) {
					t.Errorf("Reports again = %v, want %v", err, want)
				}
				if err := pauser.Resume(t.Context(), dying.container); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// mortal is an engine whose Wait fails from some time on, as that of a daemon that was killed does.
type mortal struct {
	bench.Engine
	died      chan struct{}
	why       error
	container bench.Container // the engine's own
}

func (m *mortal) Daemons(context.Context) ([]int, error) { return nil, nil }

func (m *mortal) Pid(ctx context.Context, _ bench.Container) (int, error) {
	reporter, ok := bench.As[bench.ProcessReporter](m.Engine)
	if !ok {
		return 0, bench.ErrUnsupported
	}
	return reporter.Pid(ctx, m.container)
}

func (m *mortal) Create(ctx context.Context, spec bench.Spec) (c bench.Container, err error) {
	m.container, err = m.Engine.Create(ctx, spec)
	return mortalContainer{m.container, m}, err
}

type mortalContainer struct {
	bench.Container
	of *mortal
}

func (c mortalContainer) Wait(ctx context.Context) (bench.Exit, error) {
	living, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-c.of.died:
			end(c.of.why)
		case <-living.Done():
		}
	}()
	exit, err := c.Container.Wait(living)
	if why := context.Cause(living); err != nil && why != nil {
		err = why
	}
	return exit, err
}

// A limit that works in periods is found in the kernel, and then the process takes no turns.
func TestTurnsOfLimited(t *testing.T) {
	e := engines(t)["floor"]
	p, _ := start(t, e, bench.Limits{CPUs: 0.5}, "load", turn.Option, "cpu", "time=1s", "kernels=prime")
	err := p.TakeTurns(t.Context(), &alone{})
	if !errors.Is(err, bench.ErrPeriodicLimit) || !errors.Is(err, bench.ErrNoTurns) ||
		!strings.Contains(err.Error(), "a CPU quota") {
		t.Errorf("TakeTurns = %v, want that it has a CPU quota", err)
	}
	free, _ := start(t, e, bench.Limits{Memory: 256 << 20}, "load", turn.Option, "cpu", "time=20ms", "kernels=prime")
	if err := free.CheckTurns(t.Context(), &alone{}); err != nil {
		t.Errorf("with a limit of memory alone: %v", err)
	}
}

// hidden is an engine whose containers cannot be seen from here.
type hidden struct{ bench.Engine }

func (hidden) Pid(context.Context, bench.Container) (int, error) { return 0, bench.ErrUnsupported }

func (hidden) Daemons(context.Context) ([]int, error) { return nil, bench.ErrUnsupported }

// A process that cannot be seen takes no turns; one that has ended has failed.
func TestTurnsOfHiddenProcesses(t *testing.T) {
	e := hidden{engines(t)["native"]}
	p, _ := start(t, e, bench.Limits{}, "load", turn.Option, "cpu", "time=60ms", "kernels=prime")
	if err := p.TakeTurns(t.Context(), &alone{}); !errors.Is(err, bench.ErrNoTurns) {
		t.Errorf("TakeTurns = %v, want ErrNoTurns", err)
	}
	p, _ = start(t, e, bench.Limits{}, "load", turn.Option, "none")
	err := p.TakeTurns(t.Context(), &alone{})
	if err == nil || errors.Is(err, bench.ErrNoTurns) || !strings.Contains(err.Error(), "ended with") {
		t.Errorf("TakeTurns of a process that has ended = %v", err)
	}
}
