package app_test

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

// canTrace ends the test where this machine cannot trace and nobody said that it can.
func canTrace(t *testing.T, p *app.Planned) {
	t.Helper()
	if err := p.CanTrace(t.Context()); err != nil {
		if os.Geteuid() != 0 && errors.Is(err, bench.ErrUnsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
}

// traced measures a plan with a traced trial of each cell after every block.
func traced(t *testing.T, text string) (*app.Planned, *bench.Run) {
	t.Helper()
	a, store := newApp(t, &watcher{}), newStore(t)
	p := planned(t, a, text)
	canTrace(t, p)
	p.Plan.TraceEvery(1)
	id, err := a.Measure(t.Context(), store, p, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.OpenTraced(t.Context(), store, id)
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// Traced trials are stored, apart from the values, and every one has a timeline whose tiles sum to the metric.
func TestTimeline(t *testing.T) {
	p, r := traced(t, strings.Replace(small, "blocks: 2", "blocks: 6", 1))
	values := 0
	for _, s := range r.Samples {
		if s.Outcome != bench.OK {
			t.Fatalf("a trial of %s: %s", p.Plan.Cells[s.Trial.Cell].Name, s.Reason)
		}
		for _, v := range s.Values {
			if s.Trial.Traced && !math.IsNaN(v) {
				t.Error("a traced trial has a value")
			}
		}
		if !s.Trial.Traced {
			values++
		}
		if (s.Trace != nil) != s.Trial.Traced {
			t.Errorf("traced %v, with a trace %v", s.Trial.Traced, s.Trace != nil)
		}
	}
	if want := 6 * len(p.Plan.Cells); values != want || len(r.Samples) != 2*want {
		t.Errorf("%d of %d trials are timed, want %d", values, len(r.Samples), want)
	}
	result := timeline.Analyze(r, "")
	if len(result.Cells) != len(p.Plan.Cells) {
		t.Fatalf("%d cells have timelines", len(result.Cells))
	}
	for _, c := range result.Cells {
		wantWhole(t, p.Plan.Cells[c.Cell].Name, &c)
	}
}

// wantWhole wants all timelines of a cell to be complete, and to explain all of the metric but 5 %.
func wantWhole(t *testing.T, name string, c *timeline.Cell) {
	t.Helper()
	if c.Complete != len(c.Timelines) || c.Complete < 6 || c.Failed != 0 {
		t.Errorf("%s: %d of %d timelines are complete, %d failed: %s", name, c.Complete, len(c.Timelines), c.Failed, c.Incomplete)
	}
	for i := range c.Timelines {
		one := &c.Timelines[i]
		sum := time.Duration(0)
		for _, tile := range one.Tiles {
			sum += tile.Duration
		}
		if one.Incomplete == "" && sum != one.Value {
			t.Errorf("%s: the tiles sum to %v, the metric is %v", name, sum, one.Value)
		}
	}
	if c.Unknown > c.Value.Value/20 {
		t.Errorf("%s: of %v, nothing is known of %v", name, c.Value.Value, c.Unknown)
	}
	t.Logf("%s: %v, unknown %v, tracing costs %+.1f %%", name, c.Value.Value, c.Unknown, 100*(c.Cost.Ratio-1))
	for _, row := range c.Rows[:min(len(c.Rows), 8)] {
		t.Logf("  %v %s: %s, %s %v", row.Mean.Value, row.Role, row.Kind, row.Class, row.Reasons)
	}
}

const ms = time.Millisecond

// Where nothing can be traced, the run goes on without, and says why.
func TestNoTimeline(t *testing.T) {
	a, store := newApp(t, &watcher{}), newStore(t)
	p := planned(t, a, strings.Replace(small, "lifecycle", "cpu", 1)+"params: {time: 10ms}\n")
	p.Plan.TraceEvery(1)
	id, err := a.Measure(t.Context(), store, p, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.OpenTraced(t.Context(), store, id)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Header.Warnings, func(w bench.Warning) bool {
		return w.Code == app.CodeNotTraced && strings.Contains(w.Text, "workload cpu has no timeline")
	}) {
		t.Errorf("warnings %v", r.Header.Warnings)
	}
	if n := 2 * len(p.Plan.Cells); r.Header.Plan.Timeline != 0 || len(r.Samples) != n {
		t.Errorf("timeline %d, %d trials, want %d", r.Header.Plan.Timeline, len(r.Samples), n)
	}
	if c := timeline.Analyze(r, "").Cells; len(c) != 0 {
		t.Errorf("%d cells have timelines", len(c))
	}
}
