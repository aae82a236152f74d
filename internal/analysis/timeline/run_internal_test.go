package timeline

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

// metric is that of the hand-made runs.
const metric = "first_instruction"

// stages are those of a trial: tare creates from 0 to 100 µs, and starts from 200 until the mark.
func stages(mark int) []bench.TraceEvent {
	stage := func(name string, from, to int) bench.TraceEvent {
		return bench.TraceEvent{At: time.Duration(from) * us, Name: bench.StageEvent, Source: metric, Attributes: []bench.Label{
			{Key: bench.StageName, Value: name}, {Key: bench.StageLength, Value: strconv.Itoa((to - from) * 1000)},
		}}
	}
	create := stage("create", 0, 100)
	create.Attributes = append(create.Attributes, bench.Label{Key: bench.StageThread, Value: strconv.Itoa(tare)})
	start := stage("start", 200, mark)
	start.Attributes = append(start.Attributes, bench.Label{Key: bench.StageInside, Value: "true"})
	return []bench.TraceEvent{create, start}
}

// started is a tape of a start in which the runtime runs for some time and then waits for a kernel thread for
// some time, until the program marks its first instruction.
func started(runs, waits int) (t *tape, mark int) {
	t = newTape()
	t.call(40, 60, tare, "clone3")
	t.fork(210, tare, child)
	t.on(220, child)
	t.exec(230, child, "/usr/bin/runc")
	t.blocks(230+runs, child, 2)
	t.wakes(230+runs+waits, 15, child, 3, "rcu_preempt")
	t.on(230+runs+waits, child)
	t.exec(240+runs+waits, child, "/tare-agent")
	t.preempted(400+runs+waits, child)
	return t, 250 + runs + waits
}

// sample is a traced trial of a cell.
func sample(t testing.TB, block, cell int, tape *tape, mark int) bench.Sample {
	t.Helper()
	e, err := recording.Encode(&tape.Recording)
	if err != nil {
		t.Fatal(err)
	}
	s := bench.Sample{
		Trial: bench.Trial{Block: block, Cell: cell}, Outcome: bench.OK, Values: []float64{1},
		Trace: &bench.Trace{Events: append(stages(mark), e)},
	}
	s.MarkTraced()
	return s
}

// compared is a run of two cells: in the second one, the runtime runs 300 µs longer.
func compared(t testing.TB, blocks int) *bench.Run {
	t.Helper()
	run := &bench.Run{Header: bench.Header{
		Plan:    bench.Plan{Cells: []bench.Cell{{Name: "a", Baseline: true}, {Name: "b"}}, Timeline: 1},
		Metrics: []bench.Metric{{Name: metric, Title: "time to first instruction"}},
	}}
	for block := range blocks {
		for cell, runs := range []int{500, 800} {
			tape, mark := started(runs+block%3, 100+block%2)
			took := float64(100+mark-200) * 1e-6
			run.Samples = append(run.Samples,
				bench.Sample{Trial: bench.Trial{Block: block, Cell: cell}, Outcome: bench.OK, Values: []float64{took / 1.1}},
				sample(t, block, cell, tape, mark))
		}
	}
	for i := range run.Samples {
		run.Samples[i].Trial.Seq = i
	}
	return run
}

// The tiles of a trial sum to the metric, and so do the rows of all trials.
func TestSums(t *testing.T) {
	r := Analyze(compared(t, 7), "")
	if r.Metric != metric || r.Title == "" || len(r.Cells) != 2 {
		t.Fatalf("metric %q (%s), %d cells", r.Metric, r.Title, len(r.Cells))
	}
	for _, c := range r.Cells {
		if c.Complete != 7 || c.Failed != 0 || c.Incomplete != "" || c.Unknown != 0 {
			t.Errorf("cell %d: %d complete, %q, unknown %v", c.Cell, c.Complete, c.Incomplete, c.Unknown)
		}
		for _, one := range c.Timelines {
			now := time.Duration(0)
			for _, tile := range one.Tiles {
				if tile.At != now || tile.Lane >= len(one.Lanes) {
					t.Fatalf("a tile begins at %v after one that ended at %v", tile.At, now)
				}
				now = tile.End()
			}
			if now != one.Value {
				t.Errorf("the tiles end at %v, the metric at %v", now, one.Value)
			}
		}
		sum, share := time.Duration(0), 0.0
		for _, row := range c.Rows {
			sum += row.Mean.Value
			share += row.Share
			if row.Mean.Low > row.Mean.Value || row.Mean.High < row.Mean.Value {
				t.Errorf("%v: %v is not in its interval", row.Key, row.Mean)
			}
		}
		if d := (sum - c.Value.Value).Abs(); d > 100*time.Nanosecond || math.Abs(share-1) > 1e-3 {
			t.Errorf("rows sum to %v and %v, the metric's mean is %v", sum, share, c.Value.Value)
		}
		if typical := c.Timelines[c.Typical].Value; typical != c.Value.Value.Round(us) {
			t.Errorf("the typical timeline takes %v, the mean is %v", typical, c.Value.Value)
		}
	}
}

func TestRows(t *testing.T) {
	c := Analyze(compared(t, 6), "").Of(1)
	row := c.Rows[0]
	if (row.Key != Key{"runc", OnCPU, Code}) || row.Mean.Value < 800*us || row.Mean.Value > 812*us || row.Processes != 1 {
		t.Errorf("first row %+v", row)
	}
	row = c.Rows[1]
	if (row.Key != Key{"runc", Waiting, Groups}) || len(row.Reasons) != 1 ||
		row.Reasons[0].Name != "percpu_down_write, woken by rcu_preempt" || row.Reasons[0].Times != 1 {
		t.Errorf("second row %+v", row)
	}
	for _, lane := range c.Timelines[0].Lanes {
		if want := 810 * us; lane.Role == "runc" && (lane.OnCPU != want || lane.OnPath != want+100*us) {
			t.Errorf("runc was on a CPU for %v, want %v; on the path for %v", lane.OnCPU, want, lane.OnPath)
		}
	}
	last := c.Timelines[0].Lanes[len(c.Timelines[0].Lanes)-1]
	if last.Role != "program" || last.Name != "tare-agent" || c.Timelines[0].Lanes[last.Parent].Role != "runc" {
		t.Errorf("last lane %+v", last)
	}
}

// What differs is found, what does not is folded, and nothing is lost.
func TestBetween(t *testing.T) {
	r := Analyze(compared(t, 9), "")
	d, ok := r.Between(1, 0)
	if !ok || d.Blocks != 9 || d.Mean.Value != 300*us {
		t.Fatalf("%v, %+v", ok, d)
	}
	if len(d.Rows) != 1 || d.Rows[0].Key != (Key{"runc", OnCPU, Code}) || d.Rows[0].Mean.Value != 300*us {
		t.Errorf("rows %+v", d.Rows)
	}
	if d.TimedBlocks != 9 || (d.Timed.Value-300*us*10/11).Abs() > us || !d.Timed.HasInterval {
		t.Errorf("in %d blocks of timed trials the difference is %+v", d.TimedBlocks, d.Timed)
	}
	sum := d.FoldedMean()
	for _, row := range d.Rows {
		sum += row.Mean.Value
	}
	if (sum - d.Mean.Value).Abs() > 100*time.Nanosecond {
		t.Errorf("rows sum to %v, the difference is %v", sum, d.Mean.Value)
	}
	back, _ := r.Between(0, 1)
	if back.Mean.Value != -d.Mean.Value || len(back.Rows) != 1 || back.Rows[0].Mean.High >= 0 {
		t.Errorf("the other way round: %+v", back)
	}
	if same, ok := r.Between(1, 1); !ok || len(same.Rows) != 0 {
		t.Errorf("a cell differs from itself: %+v", same)
	}
	if _, ok := r.Between(0, 5); ok {
		t.Error("compared with a cell that there is not")
	}
}

// Traced trials took 10 % longer than the timed ones of their blocks.
func TestCost(t *testing.T) {
	cost := Analyze(compared(t, 6), "").Of(0).Cost
	if cost.Blocks != 6 || math.Abs(cost.Ratio-1.1) > 1e-9 || cost.Low > cost.Ratio || cost.High < cost.Ratio {
		t.Errorf("%+v", cost)
	}
}

// What an incomplete trial took says nothing of what tracing costs: it may not have been traced.
func TestCostWithoutIncomplete(t *testing.T) {
	run := compared(t, 6)
	run.Samples[len(run.Samples)-3].Trace.Events = stages(4000) // the last of cell 0, without a recording
	if cost := Analyze(run, "").Of(0).Cost; cost.Blocks != 5 || math.Abs(cost.Ratio-1.1) > 1e-9 {
		t.Errorf("%+v", cost)
	}
}

// What a trial lacks, its timeline says, and it is in no mean.
func TestIncomplete(t *testing.T) {
	for want, spoil := range map[string]func(s *bench.Sample, tape *tape){
		"it has no recording":                   func(s *bench.Sample, _ *tape) { s.Trace.Events = s.Trace.Events[:2] },
		"it reports no stages":                  func(s *bench.Sample, _ *tape) { s.Trace.Events = s.Trace.Events[2:] },
		"not after those before it":             func(s *bench.Sample, _ *tape) { s.Trace.Events[1].At = 0 },
		"no recorded thread ran when start end": func(s *bench.Sample, _ *tape) { s.Trace.Events[1].At *= 100 },
		"3 events were lost": func(s *bench.Sample, tape *tape) {
			tape.Lost = 3
			s.Trace.Events[2], _ = recording.Encode(&tape.Recording)
		},
		"the kernel refused": func(s *bench.Sample, tape *tape) {
			tape.Failed = "the kernel refused"
			s.Trace.Events[2], _ = recording.Encode(&tape.Recording)
		},
	} {
		run := compared(t, 5)
		tape, mark := started(500, 100)
		spoiled := sample(t, 4, 0, tape, mark)
		spoil(&spoiled, tape)
		run.Samples[len(run.Samples)-3] = spoiled // the last of cell 0
		c := Analyze(run, "").Of(0)
		if len(c.Timelines) != 5 || c.Complete != 4 || !strings.Contains(c.Incomplete, want) || c.Lost != tape.Lost {
			t.Errorf("%d of %d complete, lost %d, %q, want %q", c.Complete, len(c.Timelines), c.Lost, c.Incomplete, want)
		}
		if tiles := c.Timelines[4].Tiles; len(tiles) != 0 {
			t.Errorf("%s: %d tiles", want, len(tiles))
		}
	}
	run := compared(t, 1)
	run.Samples[1].Outcome = bench.Failed
	if c := Analyze(run, "").Of(0); c.Failed != 1 || len(c.Timelines) != 0 || c.Typical != -1 {
		t.Errorf("a failed trial: %+v", c)
	}
	if r := Analyze(&bench.Run{}, ""); len(r.Cells) != 0 {
		t.Errorf("a run without timelines has %d", len(r.Cells))
	}
}

// A trial in which the kernel gave no stack for some events counts, and that is told.
func TestEventsWithoutStack(t *testing.T) {
	run := compared(t, 5)
	tape, mark := started(500, 100)
	tape.NoStack = 2
	run.Samples[len(run.Samples)-3] = sample(t, 4, 0, tape, mark) // the last of cell 0
	if c := Analyze(run, "").Of(0); c.Complete != 5 || c.NoStack != 2 || c.Lost != 0 {
		t.Errorf("%d complete, %d events without a stack, %d lost", c.Complete, c.NoStack, c.Lost)
	}
}

// noise is a cell of timelines that all come from one distribution, with long tails.
func noise(r *rand.Rand, cell, blocks int) Cell {
	c := Cell{Cell: cell}
	for block := range blocks {
		one := Timeline{Trial: bench.Trial{Block: block}}
		for lane := range 15 {
			took := time.Duration((1 + r.ExpFloat64()) * float64(lane+1) * float64(time.Millisecond))
			one.Lanes = append(one.Lanes, Lane{Role: Role(strconv.Itoa(lane))})
			one.Tiles = append(one.Tiles, Tile{At: one.Value, Duration: took, Lane: lane, Kind: OnCPU, Class: Code})
			one.Value += took
		}
		c.Timelines = append(c.Timelines, one)
	}
	return c
}

// Of cells that do not differ, a row is told as a difference in at most 5 % of runs, all rows together.
func TestNothingDiffersFromItself(t *testing.T) {
	const runs, most = 1000, 70 // 5 %, and three standard deviations
	for _, blocks := range []int{3, 6, 20} {
		wrong := 0
		for seed := range uint64(runs) {
			r := rand.New(rand.NewPCG(seed, uint64(blocks)))
			result := &Result{Cells: []Cell{noise(r, 0, blocks), noise(r, 1, blocks)}}
			d, ok := result.Between(1, 0)
			if !ok || d.Blocks != blocks || len(d.Rows)+len(d.Folded) < 10 {
				t.Fatalf("%d blocks, %d rows", d.Blocks, len(d.Rows)+len(d.Folded))
			}
			if len(d.Rows) > 0 {
				wrong++
			}
		}
		t.Logf("%d blocks: %d of %d runs have a false row", blocks, wrong, runs)
		if wrong > most {
			t.Errorf("%d blocks: %d of %d runs have a false row", blocks, wrong, runs)
		}
	}
}
