package report_test

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/text"
)

// dockerAndRunc is a run with both; Docker's cell is number 1.
func dockerAndRunc() *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 41, Blocks: 12, Metrics: analysistest.Lifecycle()[:2],
		Cells: []analysistest.Cell{{Name: "runc"}, {Name: "docker", Factor: 5.2}},
	})
}

// explained are the timelines of that run, with differences that were written by hand.
func explained(plan *bench.Plan) *report.Timelines {
	cost := func(ratio, low, high float64) timeline.Cost {
		return timeline.Cost{Blocks: 7, Ratio: ratio, Low: low, High: high}
	}
	trial := func(seq, cell int) bench.Trial { return bench.Trial{Seq: seq, Block: 3, Cell: cell, Traced: true} }
	r := &timeline.Result{
		Metric: "first_instruction", Title: "time to first instruction",
		Cells: []timeline.Cell{
			analysistest.TracedCell(0, cost(1.004, 0.99, 1.02),
				analysistest.Runc(trial(11, 0)), analysistest.Runc(trial(24, 0))),
			analysistest.TracedCell(1, cost(1.03, 1.01, 1.05),
				analysistest.Docker(trial(12, 1)), analysistest.Docker(trial(25, 1))),
		},
	}
	t := report.NewTimelines(plan, r, nil)
	type reasons = []report.TimelineReason
	row := func(role, kind, class string, processes, value, off float64, why reasons) report.TimelineRow {
		low, high := value-off, value+off
		return report.TimelineRow{
			Role: role, Kind: kind, Class: class, Processes: processes, Reasons: append(reasons{}, why...),
			Mean: report.Mean{Value: value, Low: &low, High: &high},
		}
	}
	low, high := 0.1787, 0.2113
	timedLow, timedHigh := 0.1731, 0.2049
	t.Differences = []report.TimelineDifference{{
		Cell: "docker", Base: "runc", Blocks: 7, Mean: report.Mean{Value: 0.19485, Low: &low, High: &high},
		Rows: []report.TimelineRow{
			row("dockerd, again", "on CPU", "own code", 2, 0.106, 0.008, nil),
			row("shim", "on CPU", "own code", 1, 0.038, 0.004, nil),
			row("dockerd", "on CPU", "own code", 1, 0.018, 0.002, nil),
			row("runc", "on CPU", "own code", 1, -0.0116, 0.0011, nil),
			row("dockerd", "waits", "network", 1, 0.011, 0.003, reasons{{Name: "sendto", Mean: 0.011, Times: 6}}),
			row("runc", "waits", "control groups", 1, 0.0075, 0.0021,
				reasons{{Name: "synchronize_rcu", Mean: 0.0075, Times: 2}}),
		},
		Folded: 9, Rest: 0.02595,
		TimedBlocks: 12, Timed: &report.Mean{Value: 0.189, Low: &timedLow, High: &timedHigh},
		CellCost: t.Cells[1].Cost, BaseCost: t.Cells[0].Cost,
	}}
	return t
}

// explainedByOthers has foreign text in every place that a record can have it, and all that can be wrong.
func explainedByOthers(plan *bench.Plan) *report.Timelines {
	t := explained(plan)
	t.Metric, t.Title = "first_instruction", attack
	for i := range t.Cells {
		c := &t.Cells[i]
		drawn := *c.Drawn
		drawn.Lanes, drawn.Tiles = slices.Clone(drawn.Lanes), slices.Clone(drawn.Tiles)
		drawn.Spans = slices.Clone(drawn.Spans)
		for k := range drawn.Lanes {
			drawn.Lanes[k].Name, drawn.Lanes[k].Role = attack, timeline.Role(attack)
		}
		for k := range drawn.Tiles {
			x := &drawn.Tiles[k]
			x.Reason, x.Class, x.Stack = attack, timeline.Class(attack), []string{attack, attack}
		}
		drawn.Tiles[2].Lane, drawn.Tiles[3].Lane = -1, 4711
		drawn.Tiles[4].At, drawn.Tiles[4].Duration = -time.Hour, math.MaxInt64
		drawn.Spans[0].Name = attack
		c.Drawn = &drawn
		for k := range c.Rows {
			c.Rows[k].Role, c.Rows[k].Kind, c.Rows[k].Class = attack, attack, attack
			c.Rows[k].Reasons = []report.TimelineReason{{Name: attack, Mean: 1, Times: 3}}
		}
	}
	for i := range t.Differences[0].Rows {
		t.Differences[0].Rows[i].Role, t.Differences[0].Rows[i].Class = attack, attack
	}
	t.Differences[0].Base = attack
	return t
}

// timelineStates are the states that have timelines.
func timelineStates() (all []state) {
	for _, s := range states() {
		if s.timelines != nil {
			all = append(all, s)
		}
	}
	return all
}

// TestTimelineGolden compares what the terminal shows with testdata.
func TestTimelineGolden(t *testing.T) {
	for _, s := range timelineStates() {
		for name, opt := range map[string]text.Options{
			"timeline-80.txt": {Width: 80}, "timeline-100.txt": {Width: 100},
			"timeline-100-color.txt": {Width: 100, Color: true}, "timeline-all-100.txt": {Width: 140, All: true},
		} {
			var b bytes.Buffer
			d := s.document(t)
			d.Next = d.PictureSteps(lastPart)
			if err := text.WriteTimelines(&b, d, opt); err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", s.name, name), b.Bytes())
		}
	}
}

// TestTimelineFits checks that no line is wider than the terminal, or than 100 columns, and that nothing foreign
// does anything there.
func TestTimelineFits(t *testing.T) {
	for _, s := range timelineStates() {
		for _, width := range []int{0, 10, 40, 57, 80, 100, 250} {
			var b bytes.Buffer
			if err := text.WriteTimelines(&b, s.document(t), text.Options{Width: width}); err != nil {
				t.Fatal(err)
			}
			most := min(max(width, 40), 100)
			if width == 0 {
				most = 80
			}
			for line := range strings.Lines(b.String()) {
				columns := utf8.RuneCountInString(line) - 1
				for _, r := range line {
					if unicode.Is(unicode.Han, r) {
						columns++
					}
				}
				if columns > most {
					t.Errorf("%s at %d columns: %d columns in %q", s.name, width, columns, line)
				}
			}
			for _, r := range b.String() {
				if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
					t.Fatalf("%s has the character %U", s.name, r)
				}
			}
		}
	}
}

// TestTimelineWithoutColor checks that what is on the path can be told without colour, and is bold with it.
func TestTimelineWithoutColor(t *testing.T) {
	d := timelineStates()[0].document(t)
	var plain, colored bytes.Buffer
	if err := text.WriteTimelines(&plain, d, text.Options{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if err := text.WriteTimelines(&colored, d, text.Options{Width: 80, Color: true}); err != nil {
		t.Fatal(err)
	}
	for _, sign := range []string{"█", "▓", "▒", "·"} {
		if !strings.Contains(plain.String(), sign) {
			t.Errorf("no %s:\n%s", sign, plain.String())
		}
	}
	if !strings.Contains(colored.String(), "\x1b[1m█") || !strings.Contains(colored.String(), "\x1b[2m·") {
		t.Errorf("the path is not bold, or what is beside it not dim:\n%q", colored.String())
	}
}

// TestManyDifferences checks that several differences are listed, and that nothing is drawn then.
func TestManyDifferences(t *testing.T) {
	d := timelineStates()[0].document(t)
	d.Timelines.Differences = append(d.Timelines.Differences, d.Timelines.Differences[0])
	var b bytes.Buffer
	if err := text.WriteTimelines(&b, d, text.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "docker − runc"); n != 2 || strings.Contains(b.String(), "█") {
		t.Errorf("%d differences, or a picture:\n%s", n, b.String())
	}
}

// TestWaterfall checks that each slot has somebody on the path, that nobody on the path is left out, and that
// all who have no lane of their own share one.
func TestWaterfall(t *testing.T) {
	tl := analysistest.Docker(bench.Trial{Seq: 5})
	for _, slots := range []int{1, 7, 46, 61, 700} {
		for _, lanes := range []int{2, 5, 40} {
			w := report.NewWaterfall(&tl, slots, lanes)
			if len(w.Lanes) > lanes {
				t.Fatalf("%d lanes, want at most %d", len(w.Lanes), lanes)
			}
			var sum time.Duration
			for _, l := range w.Lanes {
				sum += l.OnPath
				onPath := slices.ContainsFunc(l.Slots, func(m report.Mark) bool { return m >= report.Runs })
				if len(l.Slots) != slots || onPath != (l.OnPath > 0) {
					t.Errorf("%d slots: %s has %v of the path, and %v", slots, l.Name, l.OnPath, l.Slots)
				}
			}
			if sum != tl.Value {
				t.Errorf("the lanes have %v of %v", sum, tl.Value)
			}
			for i := range slots {
				if !slices.ContainsFunc(w.Lanes, func(l report.WaterfallLane) bool { return l.Slots[i] >= report.Runs }) {
					t.Errorf("%d slots, %d lanes: nobody is on the path in slot %d", slots, lanes, i)
				}
			}
		}
	}
	if w := report.NewWaterfall(&timeline.Timeline{}, 10, 10); len(w.Lanes) > 0 {
		t.Errorf("nothing has lanes: %v", w.Lanes)
	}
}

// TestTimelineWords checks how rows are said.
func TestTimelineWords(t *testing.T) {
	type row = report.TimelineRow
	for _, c := range []struct {
		row       row
		who, what string
	}{
		{row{Role: "shim", Kind: "on CPU", Class: "own code", Processes: 1}, "shim", "on CPU"},
		{row{Role: "runc", Kind: "waits for a CPU", Class: "own code", Processes: 2.04}, "runc ×2", "waits for a CPU"},
		{row{
			Role: "runc", Kind: "waits", Class: "control groups", Processes: 1.5,
			Reasons: []report.TimelineReason{
				{Name: "synchronize_rcu", Times: 2}, {Name: "", Times: 9}, {Name: "futex", Times: 1}, {Name: "read", Times: 1.26},
			},
		}, "runc ×1.5", "waits: control groups (synchronize_rcu 2×, futex, read 1.3×)"},
		{row{Role: "x\x1b[2J", Kind: "unknown", Class: "other", Processes: math.NaN()}, `x\x1b[2J`, "unknown"},
	} {
		if got := []string{c.row.Who(), c.row.What()}; !cmp.Equal(got, []string{c.who, c.what}) {
			t.Errorf("%q, want %q and %q", got, c.who, c.what)
		}
	}
	d := &report.TimelineDifference{Cell: "a", Base: "b", Mean: report.Mean{Value: -0.0021}}
	for want, change := range map[string]func(){
		"": func() {}, "what is too small for a row": func() { d.Rest = 1e-4 },
		"1 row without evidence of a difference, and what is too small for a row": func() { d.Folded = 1 },
	} {
		d.Rest, d.Folded = 0, 0
		if change(); d.RestText() != want {
			t.Errorf("the rest is %q, want %q", d.RestText(), want)
		}
	}
	if got := d.TimedText(); got != "" {
		t.Errorf("without timed trials it says %q", got)
	}
	ratio, low, high := 1.1, 1.07, 1.13
	d.Timed, d.CellCost = &report.Mean{Value: -0.002}, &report.Interval{Estimate: &ratio, Low: &low, High: &high}
	if got := d.TimedText(); got != "timed without tracing: −2 ms; traced trials took +10 % [+7, +13] (a)" {
		t.Errorf("the timed difference is %q", got)
	}
	if got := d.Summary(); got != "a − b = −2.1 ms" && got != "a − b = −2.10 ms" {
		t.Errorf("the difference is %q", got)
	}
}

// TestTimelineWarnings checks that what makes times doubtful is told.
func TestTimelineWarnings(t *testing.T) {
	plan := &dockerAndRunc().Header.Plan
	warned := func(change func(*timeline.Cell)) string {
		cost := timeline.Cost{Blocks: 6, Ratio: 1.15, Low: 1.1, High: 1.2}
		c := analysistest.TracedCell(1, cost, slices.Repeat([]timeline.Timeline{analysistest.Docker(bench.Trial{})}, 6)...)
		change(&c)
		t := report.NewTimelines(plan, &timeline.Result{Cells: []timeline.Cell{c}}, nil)
		return strings.Join(t.Cells[0].Warnings, "\n")
	}
	if got := warned(func(*timeline.Cell) {}); got != "" {
		t.Errorf("nothing is wrong, and told: %s", got)
	}
	for want, change := range map[string]func(c *timeline.Cell){
		"15 % longer": func(c *timeline.Cell) { c.Cost.Ratio = 1.151 },
		"the kernel had no room for 12 events, so the trials that lost some are in no mean": func(c *timeline.Cell) {
			c.Lost = 12
		},
		"the kernel had no room for 1 event, so the trial that lost it is in no mean": func(c *timeline.Cell) {
			c.Lost = 1
		},
		"the kernel gave no functions for 1 event: such waits": func(c *timeline.Cell) { c.NoStack = 1 },
		"1 traced trial is incomplete and in no mean: the clock": func(c *timeline.Cell) {
			c.Timelines[2].Incomplete = "the clock of the container is another one"
			c.Timelines[3].Incomplete, c.Timelines[3].Lost = "9 events were lost", 9 // which another warning tells
		},
		"only 5 complete traced trials": func(c *timeline.Cell) { c.Complete = 5 },
		"2 traced trials failed":        func(c *timeline.Cell) { c.Failed = 2 },
	} {
		if got := warned(change); !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if got := warned(func(c *timeline.Cell) {
		c.Timelines[0].Incomplete, c.Timelines[0].Lost, c.Lost = "9 events were lost", 9, 9
	}); strings.Contains(got, "incomplete") {
		t.Errorf("lost events are told twice: %s", got)
	}
}

// TestBaselinePairs checks what is compared if nobody says it: no control, and nothing across conditions.
func TestBaselinePairs(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Blocks: 1, Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc"}}, Conditions: []string{"a", "b"},
	})
	for _, p := range report.BaselinePairs(&run.Header.Plan) {
		cell, base := run.Header.Plan.Cells[p.Cell], run.Header.Plan.Cells[p.Base]
		if cell.Condition != base.Condition || cell.Control || !base.Baseline || cell.Name != "runc" {
			t.Errorf("%s is compared with %s", cell.FullName(), base.FullName())
		}
	}
	if n := len(report.BaselinePairs(&run.Header.Plan)); n != 2 {
		t.Errorf("%d pairs, want 2", n)
	}
}
