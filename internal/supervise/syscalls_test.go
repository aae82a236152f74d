package supervise_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/syscalls"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// A known number of system calls, of a process and its children, is counted in
// and out of containers, and what the engine did before in the process is not.
func TestSystemCalls(t *testing.T) {
	counter, err := syscalls.Open()
	if err != nil {
		if os.Geteuid() != 0 && errors.Is(err, bench.ErrUnsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := counter.Close(); err != nil {
			t.Error(err)
		}
	})
	// For each child the agent asks for its own number and forks; the child asks
	// for a signal and for its parent, and waits.
	const children, each = 400, 5
	// The agent's own beginning, end and waiting, on as many threads as it likes.
	const more = 600
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, counted{e, counter}, bench.Limits{}, "fork", "400")
			if _, err := p.AwaitLines(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			n := calls(t, p, children*each)
			if n < children*each || n > children*each+more {
				t.Errorf("%v system calls for %d children", n, children)
			}
		})
	}
}

// counted is an engine as the runner gives it to tasks.
type counted struct {
	bench.Engine
	bench.CallCounter
}

func (c counted) Unwrap() bench.Engine { return c.Engine }

// calls looks until so many are counted, since children may not have begun yet.
func calls(t *testing.T, p *supervise.Process, least float64) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		m := workloadtest.NewMeter(t)
		supervise.Record(m, p.Count(ctx))
		if n := m.Values[supervise.SystemCalls]; n >= least || ctx.Err() != nil {
			return n
		}
		time.Sleep(10 * time.Millisecond)
	}
}
