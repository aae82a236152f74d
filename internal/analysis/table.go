package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tare-bench/tare/internal/bench"
)

// A table holds the trials of a run that count, by cell and block.
type table struct {
	run         *bench.Run
	cells       []bench.Cell
	blocks      []int        // numbers of the blocks that count, ascending
	rows        []row        // one for each successful trial, in order of execution
	groups      []group      // the conditions, in the plan's order
	role        []bench.Role // of each metric in this plan
	trials      Trials
	failed      []int  // per cell: trials without a value, warm-up apart
	unsupported []bool // per cell: its engine cannot do what it asks for
	look        look   // at the run
}

// A row is one successful trial.
type row struct {
	cell, block int32 // block is an index in table.blocks
	sample      int32 // index in Run.Samples
}

// values are those of a row's trial, by metric.
func (t *table) values(r row) []float64 { return t.run.Samples[r.sample].Values }

// A group is one condition: a baseline, what is compared with it, and perhaps a control.
type group struct {
	condition string
	baseline  int
	control   int   // -1 = none
	cells     []int // without the control
}

// newTable checks a run and sorts its trials. Traced ones have no place in it.
func newTable(run *bench.Run) (*table, error) {
	run = run.Timed()
	t := &table{run: run.Extended(), cells: run.Header.Plan.Cells, look: look(run.Looks())}
	if err := t.check(); err != nil {
		return nil, err
	}
	var err error
	if t.groups, err = groupCells(t.cells); err != nil {
		return nil, err
	}
	if t.role, err = roles(&run.Header); err != nil {
		return nil, err
	}
	t.failed, t.unsupported = make([]int, len(t.cells)), make([]bool, len(t.cells))
	t.findBlocks()
	t.rows = make([]row, 0, len(run.Samples))
	for i := range run.Samples {
		t.count(i)
	}
	return t, nil
}

// check refuses samples whose cell or values lie beyond what the header declares.
func (t *table) check() error {
	if len(t.cells) == 0 {
		return errors.New("the plan has no cells")
	}
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		if s.Trial.Cell < 0 || s.Trial.Cell >= len(t.cells) {
			return fmt.Errorf("sample %d: there is no cell %d: the plan has %d", i, s.Trial.Cell, len(t.cells))
		}
		if n := len(t.run.Header.Metrics); len(s.Values) > n {
			return fmt.Errorf("sample %d: %d values for %d metrics", i, len(s.Values), n)
		}
	}
	return nil
}

// groupCells sorts the cells by condition.
func groupCells(cells []bench.Cell) ([]group, error) {
	var groups []group
	at := make(map[string]int)
	for i, c := range cells {
		n, ok := at[c.Condition]
		if !ok {
			n = len(groups)
			at[c.Condition] = n
			groups = append(groups, group{condition: c.Condition, baseline: -1, control: -1})
		}
		g := &groups[n]
		switch {
		case c.Control && g.control >= 0:
			return nil, fmt.Errorf("condition %q has two controls", c.Condition)
		case c.Control:
			g.control = i
			continue
		case c.Baseline && g.baseline >= 0:
			return nil, fmt.Errorf("condition %q has two baselines, %q and %q", c.Condition, cells[g.baseline].Name, c.Name)
		case c.Baseline:
			g.baseline = i
		}
		g.cells = append(g.cells, i)
	}
	for _, g := range groups {
		if g.baseline < 0 {
			return nil, fmt.Errorf("condition %q has no baseline", g.condition)
		}
	}
	return groups, nil
}

// roles returns what each metric is in this plan.
func roles(h *bench.Header) ([]bench.Role, error) {
	out := make([]bench.Role, len(h.Metrics))
	known := make(map[string]bool)
	for i, m := range h.Metrics {
		known[m.Name] = true
		out[i] = h.Plan.Role(m)
	}
	for _, name := range h.Plan.Restrict {
		if !known[name] {
			return nil, fmt.Errorf("the plan's primary metric %q is not a metric of the run", name)
		}
	}
	return out, nil
}

// findBlocks lists the blocks with a successful trial. Their numbers come from
// a file and may be anything, so they are never used as an index.
func (t *table) findBlocks() {
	for i := range t.run.Samples {
		s, n := &t.run.Samples[i], len(t.blocks)
		if s.Outcome == bench.OK && !s.Trial.Warmup() && (n == 0 || t.blocks[n-1] != s.Trial.Block) {
			t.blocks = append(t.blocks, s.Trial.Block)
		}
	}
	slices.Sort(t.blocks)
	t.blocks = slices.Compact(t.blocks)
}

// completeBlocks counts the blocks that count and are complete: an interruption leaves the last
// block without some of its trials.
func (t *table) completeBlocks() int {
	if t.run.End != nil {
		return len(t.blocks)
	}
	trials := make(map[int]int)
	for i := range t.run.Samples {
		trials[t.run.Samples[i].Trial.Block]++
	}
	n := 0
	for _, b := range t.blocks {
		if trials[b] >= len(t.cells) {
			n++
		}
	}
	return n
}

// count adds one sample to the table.
func (t *table) count(i int) {
	s := &t.run.Samples[i]
	switch {
	case s.Trial.Warmup() && s.Outcome != bench.Unsupported && s.Outcome != bench.Skipped:
		t.trials.Warmup++
		return
	case s.Trial.Warmup(): // it never began
		return
	case s.Outcome.Failure():
		t.failed[s.Trial.Cell]++
	}
	switch s.Outcome {
	case bench.OK:
		t.trials.OK++
		block, _ := slices.BinarySearch(t.blocks, s.Trial.Block)
		t.rows = append(t.rows, row{int32(s.Trial.Cell), int32(block), int32(i)})
	case bench.TimedOut:
		t.trials.TimedOut++
	case bench.Canceled:
		t.trials.Canceled++
	case bench.Skipped:
		t.trials.Skipped++
	case bench.Unsupported:
		t.trials.Unsupported++
		t.unsupported[s.Trial.Cell] = true
	default:
		t.trials.Failed++
	}
}

// column returns the values of one metric by cell and block; NaN = no value.
func (t *table) column(metric int) [][]float64 {
	flat := make([]float64, len(t.cells)*len(t.blocks))
	for i := range flat {
		flat[i] = math.NaN()
	}
	n := len(t.blocks)
	for _, r := range t.rows {
		if x := t.values(r); metric < len(x) {
			flat[int(r.cell)*n+int(r.block)] = x[metric]
		}
	}
	out := make([][]float64, len(t.cells))
	for c := range out {
		out[c] = flat[c*n : (c+1)*n : (c+1)*n]
	}
	return out
}

// numbers returns the values that are numbers, in order.
func numbers(x []float64) []float64 {
	out := make([]float64, 0, len(x))
	for _, v := range x {
		if isUsable(v) {
			out = append(out, v)
		}
	}
	return out
}

// isUsable reports whether v is a number, and not so large that sums overflow.
func isUsable(v float64) bool { return math.Abs(v) <= 1e300 }

// failures groups trials and parts that failed by cell, part, outcome and operation.
func (t *table) failures() []Failure {
	type key struct {
		cell      int
		part      string
		outcome   bench.Outcome
		operation string
	}
	at := make(map[key]int)
	var out []Failure
	add := func(s *bench.Sample, k key, reason string) {
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, Failure{Cell: k.cell, Part: k.part, Outcome: k.outcome, Operation: k.operation, Reason: reason})
		}
		out[n].Count++
		if s.Trial.Warmup() {
			out[n].Warmup++
		}
	}
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		if s.Outcome != bench.OK {
			add(s, key{s.Trial.Cell, "", s.Outcome, s.Operation}, s.Reason)
			continue
		}
		for _, p := range s.Parts {
			if p.Outcome == bench.Failed {
				add(s, key{s.Trial.Cell, p.Part, p.Outcome, ""}, p.Reason)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Failure) int { return cmp.Compare(a.Cell, b.Cell) })
	return out
}

// parallel calls do for 0 to n-1, in parallel on all processors. The calls must not depend
// on one another, and each must write its result to a place of its own.
func parallel(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
