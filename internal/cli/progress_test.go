package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// What takes long is seen from the beginning, and the time of preparations is none of
// the budget.
func TestProgress(t *testing.T) {
	for _, tty := range []bool{true, false} {
		var out strings.Builder
		clock := time.Unix(0, 0)
		p := &progress{
			out: &out, now: func() time.Time { return clock }, width: 80, tty: tty, began: clock, beat: clock,
			plan: bench.Plan{Budget: time.Minute, Cells: []bench.Cell{{Name: "native"}, {Name: "doc\x1bker"}}},
		}
		said := func(want string) {
			t.Helper()
			if got := out.String(); !strings.Contains(got, want) {
				t.Errorf("terminal %v: %q, want %q", tty, got, want)
			}
			out.Reset()
		}
		p.observe(run.Began{Trials: 100})
		p.observe(run.SetUpBegan{Cell: 0})
		if tty {
			said("preparing native (1 of 2)")
		} else {
			said("")
		}
		clock = clock.Add(heartbeat)
		p.observe(run.SetUpBegan{Cell: 1})
		said("preparing doc\\x1bker (2 of 2)")
		clock = clock.Add(heartbeat)
		p.observe(run.TrialEnded{Sample: bench.Sample{Outcome: bench.Unsupported}})
		clock = clock.Add(heartbeat)
		p.observe(run.TrialBegan{Trial: bench.Trial{Block: 0, Cell: 1}})
		said("≤ 30s left")
		p.observe(run.Ended{})
	}
}
