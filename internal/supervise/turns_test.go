package supervise_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// alone gives a cell every turn at once, and calls do before each.
type alone struct {
	turns, stages int
	do            func(turn int)
}

func (a *alone) On() bool { return true }

func (a *alone) Part(int) {}

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
// that nothing interrupts.
func TestTakeTurns(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, e, bench.Limits{}, "load", turn.Option, "cpu", "time=60ms", "kernels=prime", "threads=2",
				agent.LoadSeparator, "memory", "time=60ms", "size=1MiB")
			from := &alone{}
			if err := p.TakeTurns(t.Context(), from); err != nil {
				t.Fatal(err)
			}
			reports, err := p.Reports(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			for i, metric := range []string{"cpu.single", "memory.copy"} {
				value, stretch := reports[i].Values[metric], reports[i].Values[metric+load.StretchSuffix]
				if value <= 0 || stretch <= 0 {
					t.Errorf("%s is %v, and %v without interruption", metric, value, stretch)
				}
			}
			// One thread, two threads, the stretch; four moves, latencies and the stretch.
			if from.stages < 3+5+1 || from.turns <= from.stages {
				t.Errorf("%d stages in %d turns", from.stages, from.turns)
			}
		})
	}
}

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
