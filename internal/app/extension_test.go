package app

import (
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/schedule"
)

// measured is a finished run of 12 blocks of two cells and a control, scheduled for so many.
func measured(scheduled int) *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 12, Warmup: 1, Metrics: analysistest.Lifecycle()[:2],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b"}},
	})
	run.Header.Plan.MaxBlocks = scheduled
	run.Header.Schedule = schedule.Blocks(run.Header.Plan)
	return run
}

func TestExtension(t *testing.T) {
	for _, tt := range []struct {
		name      string
		scheduled int
		more      More
		blocks    int // at most, in all
		added     int // to the schedule
	}{
		{"blocks behind the schedule", 12, More{Blocks: 5}, 17, 5},
		{"blocks of the schedule", 100, More{Blocks: 5}, 17, 0},
		{"some of either", 15, More{Blocks: 5}, 17, 2},
		{"time", 12, More{Budget: time.Second}, 512, 500},
		{"time and blocks", 12, More{Blocks: 5, Budget: time.Second}, 17, 5},
	} {
		run := measured(tt.scheduled)
		e, err := extension(run, tt.more)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if e.MaxBlocks != tt.blocks || len(e.Schedule) != tt.added || !e.Follows(run.End) {
			t.Errorf("%s: %d blocks, %d of them scheduled anew; want %d and %d",
				tt.name, e.MaxBlocks, len(e.Schedule), tt.blocks, tt.added)
		}
		if budget := e.Budget - spent(run.Samples); tt.more.Budget > 0 && budget != tt.more.Budget ||
			tt.more.Budget == 0 && e.Budget != 0 {
			t.Errorf("%s: a budget of %v", tt.name, e.Budget)
		}
		run.Resumptions = append(run.Resumptions, bench.Resumption{Seq: len(run.Samples), Extension: e})
		h := underLimits(run)
		if want := schedule.Blocks(h.Plan); !slices.EqualFunc(h.Schedule, want, slices.Equal) {
			t.Errorf("%s: the schedule is not the one of the seed", tt.name)
		}
	}
}

// Many short blocks in a long time do not end for want of a schedule.
func TestExtensionByTime(t *testing.T) {
	run := measured(12)
	block := spent(run.Samples) / 13
	e, err := extension(run, More{Budget: 1000 * block})
	if err != nil || e.MaxBlocks < 2000 {
		t.Errorf("%d blocks at most where 1000 take as long: %v", e.MaxBlocks, err)
	}
}

func TestTooFewMore(t *testing.T) {
	run := measured(12)
	for _, tt := range []struct {
		more More
		hint string
	}{
		{More{Blocks: 1}, ""}, // 13 are enough for two comparisons at 0.125 %
		{More{Budget: time.Hour}, ""},
	} {
		if w := TooFewMore(session(t, run, tt.more)); w != nil {
			t.Errorf("%+v: %q → %q", tt.more, w.Text, w.Hint)
		}
	}
	run.Samples = slices.DeleteFunc(run.Samples, func(s bench.Sample) bool { return s.Trial.Block >= 6 })
	for _, more := range []More{{Blocks: 1}, {Budget: time.Nanosecond}} {
		w := TooFewMore(session(t, run, more))
		if w == nil || w.Hint != "--blocks 6, or more time" {
			t.Errorf("%+v: %+v, want a warning that 6 blocks would do", more, w)
		}
	}
}

// session is what extending a run begins with.
func session(t *testing.T, run *bench.Run, more More) Session {
	t.Helper()
	e, err := extension(run, more)
	if err != nil {
		t.Fatal(err)
	}
	extended := *run
	extended.Resumptions = []bench.Resumption{{Seq: len(run.Samples), Extension: e}}
	return Session{
		Header: underLimits(&extended), Done: run.Samples, Look: extended.Looks(), ExtendedAt: extendedAt(&extended),
	}
}

// Who extends a run that was precise wants more than that; a run that was not still stops
// once it is.
func TestWasPrecise(t *testing.T) {
	run := measured(12)
	for _, reason := range []bench.StopReason{bench.StopBlocks, bench.StopPrecision, bench.StopBudget} {
		run.End.Reason = reason
		e, err := extension(run, More{Blocks: 1})
		if err != nil {
			t.Fatal(err)
		}
		run.Resumptions = append(run.Resumptions, bench.Resumption{Seq: len(run.Samples), Extension: e})
		if got := wasPrecise(run); got != (reason != bench.StopBlocks) {
			t.Errorf("extended after %s: %v", reason, got)
		}
	}
}
