package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/app"
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
			out: &out, now: func() time.Time { return clock }, width: 80, tty: tty, began: clock, lastHeartbeat: clock,
			plan: bench.Plan{Budget: time.Minute, Cells: []bench.Cell{{Name: "native"}, {Name: "doc\x1bker"}}},
		}
		result := func(want string) {
			t.Helper()
			if got := out.String(); !strings.Contains(got, want) {
				t.Errorf("terminal %v: %q, want %q", tty, got, want)
			}
			out.Reset()
		}
		p.observe(run.Began{Trials: 100})
		p.observe(run.SetUpBegan{Cell: 0})
		if tty {
			result("preparing native (1 of 2)")
		} else {
			result("")
		}
		clock = clock.Add(heartbeat)
		p.observe(run.SetUpBegan{Cell: 1})
		result("preparing doc\\x1bker (2 of 2)")
		clock = clock.Add(heartbeat)
		p.observe(run.TrialEnded{Sample: bench.Sample{Outcome: bench.Unsupported}})
		clock = clock.Add(heartbeat)
		p.observe(run.TrialBegan{Trial: bench.Trial{Block: 0, Cell: 1}})
		result("≤ 30s left")
		p.observe(run.Ended{})
	}
}

// The progress of an extension is that of its own blocks and time.
func TestProgressOfAnExtension(t *testing.T) {
	for _, tt := range []struct {
		budget time.Duration
		want   []string
	}{
		{0, []string{"  25 %  block 13, +2 of 2", "≤ 30s left"}},
		{150 * time.Second, []string{"  33 %  block 13, +2 ", "≤ 20s left"}},
	} {
		var out strings.Builder
		clock := time.Unix(0, 0)
		plan := bench.Plan{
			Budget: tt.budget, MaxBlocks: 13, Warmup: 1, Cells: []bench.Cell{{Name: "native"}, {Name: "docker"}},
		}
		p := &progress{
			out: &out, now: func() time.Time { return clock }, width: 80, tty: true, began: clock,
			lastHeartbeat: clock, plan: plan,
		}
		done := make([]bench.Sample, 24) // 11 blocks and the warm-up
		for i := range done {
			done[i].Elapsed = 5 * time.Second // two minutes in all
		}
		p.extends(app.Session{Header: bench.Header{Plan: plan}, Done: done, Look: 2, ExtendedAt: 24})
		p.observe(run.Began{Trials: 28, Done: 24})
		p.observe(run.TrialBegan{Trial: bench.Trial{Seq: 24, Block: 11}})
		clock = clock.Add(10 * time.Second)
		p.observe(run.TrialEnded{Sample: bench.Sample{Outcome: bench.OK}})
		p.observe(run.TrialBegan{Trial: bench.Trial{Seq: 25, Block: 12}})
		for _, want := range tt.want {
			if got := out.String(); !strings.Contains(got, want) {
				t.Errorf("with a budget of %v: %q, want %q", tt.budget, got, want)
			}
		}
	}
}
