package bench_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

func TestLookLevel(t *testing.T) {
	sum := 0.0
	for look := 1; look <= 1000; look++ {
		level := bench.LookLevel(look)
		if level < 0 || look > 1 && level > bench.LookLevel(look-1)/2 {
			t.Errorf("look %d may spend %v, want at most half of the %v before", look, level, bench.LookLevel(look-1))
		}
		sum += level
	}
	if sum >= 0.05 {
		t.Errorf("all looks together may spend %v, want less than 0.05", sum)
	}
}

func TestExtended(t *testing.T) {
	ended := bench.End{Time: time.Unix(1, 0), Reason: bench.StopBudget, Overhead: bench.Overhead{CPU: 1}}
	run := &bench.Run{
		Header:      bench.Header{Plan: bench.Plan{MaxBlocks: 1, Budget: time.Second}, Schedule: [][]int{{0}}},
		Resumptions: []bench.Resumption{{Seq: 1}},
	}
	if got := run.Extended(); got != run || run.Looks() != 1 {
		t.Errorf("a run that was only interrupted is %+v after %d looks, want itself after 1", got, run.Looks())
	}
	run.Resumptions = append(run.Resumptions,
		bench.Resumption{
			Seq: 1, Extension: &bench.Extension{MaxBlocks: 2, Budget: time.Minute, Schedule: [][]int{{1}}, After: ended},
		},
		bench.Resumption{Seq: 2, Extension: &bench.Extension{MaxBlocks: 3, Schedule: [][]int{{2}}, After: ended}},
	)
	got := run.Extended().Header
	if got.Plan.MaxBlocks != 3 || got.Plan.Budget != 0 || len(got.Schedule) != 3 || got.Schedule[2][0] != 2 ||
		run.Looks() != 3 {
		t.Errorf("%+v after %d looks, want the limits of the last of 3 and 3 blocks", got, run.Looks())
	}
	if want := [][]int{{0}}; run.Header.Plan.MaxBlocks != 1 || !slices.EqualFunc(run.Header.Schedule, want, slices.Equal) {
		t.Errorf("the run's own header is changed: %+v", run.Header)
	}
}

func TestFollows(t *testing.T) {
	ended := bench.End{Time: time.Unix(1, 5), Reason: bench.StopBudget, Overhead: bench.Overhead{CPU: 1}}
	e := &bench.Extension{After: ended}
	same := ended
	same.Time = ended.Time.UTC()
	if !e.Follows(&same) {
		t.Error("it does not follow its own end in another time zone")
	}
	later, other := ended, ended
	later.Time, other.Overhead.CPU = ended.Time.Add(1), 2
	for _, end := range []*bench.End{nil, &later, &other} {
		if e.Follows(end) {
			t.Errorf("it follows %+v", end)
		}
	}
}
