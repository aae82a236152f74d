package supervise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// A process that is started outside of trials outlives the context of its start. It is
// heard of and counted in one trial after the other, and gone when it is removed.
func TestOutlivesItsStart(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			_, err := e.Probe(t.Context())
			enginetest.Require(t, e.Name(), err)
			spec := bench.Spec{Argv: []string{agent.Path, "alloc", "67108864"}}
			if err := e.Prepare(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			setup, end := context.WithCancel(t.Context())
			var clock supervise.SetupClock
			p, err := supervise.Start(setup, e, spec, &clock, "server")
			if err != nil {
				t.Fatal(err)
			}
			end()
			if _, err := p.AwaitLines(t.Context(), 1); err != nil {
				t.Error(err)
			}
			first, second := pageFaults(t, p), pageFaults(t, p)
			if first < 32 || second > first/2 {
				t.Errorf("%v page faults when it was filled, %v when nothing was done", first, second)
			}
			remove, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := errors.Join(p.Remove(remove), p.Remove(remove), clock.Err()); err != nil {
				t.Error(err)
			}
			if _, known := p.Usage(t.Context()); known {
				t.Error("it is still there")
			}
		})
	}
}

// pageFaults are the page faults since they were last asked for.
func pageFaults(t *testing.T, p *supervise.Process) float64 {
	t.Helper()
	m := workloadtest.NewMeter(t)
	supervise.Record(m, p.CountNew(t.Context()))
	return m.Values["inside.page_faults"]
}

// What cannot be cleaned up outside of trials is tried once more, and told at the end.
func TestOutside(t *testing.T) {
	var clock supervise.SetupClock
	broken := errors.New("broken")
	_, err := clock.Step("start", func() error { return broken })
	var op *bench.OpError
	if !errors.As(err, &op) || op.Op != "start" || !errors.Is(err, broken) {
		t.Errorf("step: %v", err)
	}
	span, err := clock.Step("start", func() error { time.Sleep(time.Millisecond); return nil })
	if err != nil || span.Duration() < time.Millisecond || clock.Now() < span.End {
		t.Errorf("%v, %v", span, err)
	}
	tries := 0
	clock.Cleanup(func(ctx context.Context) error {
		if tries++; tries == 1 {
			return broken
		}
		return ctx.Err()
	})
	if tries != 2 || clock.Err() != nil {
		t.Errorf("%d tries, error %v", tries, clock.Err())
	}
	clock.Cleanup(func(context.Context) error { return broken })
	if !errors.Is(clock.Err(), broken) {
		t.Errorf("it says %v", clock.Err())
	}
}
