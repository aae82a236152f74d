package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	fleetreport "github.com/tare-bench/tare/internal/report/fleet"
	"github.com/tare-bench/tare/internal/store/record"
)

// A nodeRun is what is kept of one node's run: the values of primary metrics, and what may explain them.
type nodeRun struct {
	values [][]float64 // logarithms by fleet metric and round; NaN where there is none
	why    []float64   // as explanations; NaN where the machine does not tell
	facts  []string    // as factNames
}

// A judgedMetric is a metric of a cell or, with beside, what a cell has of it in relation to another one.
type judgedMetric struct {
	bench.Metric
	index  int // in the plan's metrics
	cell   int
	beside int // the cell that it is compared with in each round; -1 = none
}

// JudgeFleet reads the runs of a fleet, and says what each node is. Runs that are not stored, or no longer, count as
// not measured; so do those that are not what was planned. unread says of which runs that is, and why.
func JudgeFleet(ctx context.Context, s bench.Store, f *fleet.Fleet) (in *fleetreport.Input, unread error, err error) {
	j := &judging{fleet: f}
	runs := make([][2]*nodeRun, len(f.Nodes))
	if unread, err = j.readAll(ctx, s, runs); err != nil {
		return nil, nil, err
	}
	in = &fleetreport.Input{Fleet: *f}
	for _, n := range f.Nodes {
		in.Odd.Nodes, in.Odd.Groups = append(in.Odd.Nodes, n.Name), append(in.Odd.Groups, n.Group)
	}
	in.Odd.Smallest = f.Smallest
	for k, m := range j.metrics {
		in.Metrics = append(in.Metrics, m.Metric)
		one := odd.Metric{Name: m.Name, MoreIsSlow: m.Better == bench.Lower, Values: make([][]float64, len(runs))}
		for n, both := range runs {
			if both[0] != nil {
				one.Values[n] = both[0].values[k]
			}
			if both[1] != nil {
				if one.Again == nil {
					one.Again = make([][]float64, len(runs))
				}
				one.Again[n] = both[1].values[k]
			}
		}
		in.Odd.Metrics = append(in.Odd.Metrics, one)
	}
	in.Judged = odd.Judge(in.Odd)
	in.Reasons = explainNodes(in, runs)
	in.Paths, in.Clocks = pathsOf(f), pairs.Clocks(f.Trips)
	return in, unread, nil
}

// judging reads the runs of a fleet, of which several goroutines read.
type judging struct {
	fleet *fleet.Fleet

	mu      sync.Mutex
	plan    *bench.Plan     // of the first run that was read
	all     []bench.Metric  // of it
	metrics []*judgedMetric // those judged
}

// readAll reads every run, of both passes.
func (j *judging) readAll(ctx context.Context, s bench.Store, runs [][2]*nodeRun) (unread, err error) {
	type task struct {
		node, pass int
		run        string
	}
	var tasks []task
	index := map[string]int{}
	for n, node := range j.fleet.Nodes {
		index[node.Name] = n
	}
	for _, o := range j.fleet.Outcomes {
		if n, ok := index[o.Node]; ok && o.Run != "" && (o.Pass == 1 || o.Pass == 2) {
			tasks = append(tasks, task{n, o.Pass - 1, o.Run})
		}
	}
	// The first one alone, because it says which metrics there are.
	workers, next := 1, 0
	var mu sync.Mutex
	var failed []error
	for next < len(tasks) && ctx.Err() == nil {
		batch := tasks[next:min(next+64*workers, len(tasks))]
		if j.plan == nil {
			batch = batch[:1]
		}
		next += len(batch)
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for i := w; i < len(batch); i += workers {
					t := batch[i]
					r, readErr := j.read(ctx, s, t.run, t.pass)
					mu.Lock()
					if runs[t.node][t.pass] = r; readErr != nil {
						failed = append(failed, fmt.Errorf("run %s: %w", t.run, readErr))
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if j.plan != nil {
			workers = min(8, runtime.GOMAXPROCS(0))
		}
	}
	return errors.Join(failed...), ctx.Err()
}

// errOtherPlan is the error of a run that does not measure what the others of its fleet do.
var errOtherPlan = errors.New("it has another plan than the other nodes")

// read reads one run. It returns nil if it is not stored, or holds nothing.
func (j *judging) read(ctx context.Context, s bench.Store, id string, pass int) (*nodeRun, error) {
	r, err := record.CollectValues(record.Stored(ctx, s, id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("it is not stored any more")
	case err != nil:
		return nil, err
	}
	if err := j.agree(r); err != nil {
		return nil, err
	}
	rounds := j.fleet.Rounds
	if pass == 1 {
		rounds = j.fleet.Confirm
	}
	out := &nodeRun{values: make([][]float64, len(j.metrics)), why: explain(r), facts: factsOf(&r.Header.Host)}
	for k, m := range j.metrics {
		out.values[k] = j.logarithms(r, m.index, m.cell, pass, rounds)
		if m.beside >= 0 {
			for round, base := range j.logarithms(r, m.index, m.beside, pass, rounds) {
				out.values[k][round] -= base
			}
		}
	}
	return out, nil
}

// logarithms are those of a cell's values of a metric, by round; NaN where there is none.
func (j *judging) logarithms(r *bench.Run, metric, cell, pass, rounds int) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, rounds)
	for i := range r.Samples {
		sample := &r.Samples[i]
		v, ok := sample.Value(metric)
		if !ok || v <= 0 || sample.Trial.Cell != cell || sample.Trial.Warmup() || sample.Trial.Traced {
			continue
		}
		if round := j.roundOf(sample, pass); round >= 0 && round < rounds {
			out[round] = math.Log(v)
		}
	}
	return out
}

// roundOf is in which round of a pass a sample was measured. A pod that was late has left out rounds, so that its
// blocks have other numbers; where nobody knows when the pass began, they have the same.
func (j *judging) roundOf(s *bench.Sample, pass int) int {
	if pass >= len(j.fleet.Starts) || j.fleet.Starts[pass].IsZero() || j.fleet.RoundOf(pass+1) <= 0 {
		return s.Trial.Block
	}
	since := s.Began.Sub(j.fleet.Starts[pass])
	return int(math.Floor(float64(since) / float64(j.fleet.RoundOf(pass+1))))
}

// agree takes the metrics of the first run, and refuses runs that have others.
func (j *judging) agree(r *bench.Run) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.plan != nil {
		if len(r.Header.Plan.Cells) != len(j.plan.Cells) || r.Header.Plan.Workload != j.plan.Workload ||
			!slices.EqualFunc(r.Header.Metrics, j.all, func(a, b bench.Metric) bool { return a.Name == b.Name }) {
			return errOtherPlan
		}
		return nil
	}
	j.plan, j.all = &r.Header.Plan, r.Header.Metrics
	for i, m := range r.Header.Metrics {
		if j.plan.Role(m) != bench.Primary || m.Scale != bench.Ratio {
			continue
		}
		for cell := range j.plan.Cells {
			if one := j.judged(m, i, cell); one != nil {
				j.metrics = append(j.metrics, one)
			}
		}
	}
	return nil
}

// times is the unit of what a cell has in relation to another one: 2 = twice as much.
const times = "×"

// judged is what is judged of a cell: its values if it is a baseline, and what it has beside its baseline if it is none;
// nil if it has none.
func (j *judging) judged(m bench.Metric, index, cell int) *judgedMetric {
	c := &j.plan.Cells[cell]
	one := &judgedMetric{m, index, cell, -1}
	if c.Condition != "" {
		one.Name, one.Title = one.Name+" "+c.Condition, one.Title+", "+c.Condition
	}
	if c.Baseline {
		return one
	}
	one.beside = slices.IndexFunc(j.plan.Cells, func(b bench.Cell) bool { return b.Baseline && b.Condition == c.Condition })
	if one.beside < 0 {
		return nil
	}
	beside := c.Name + " beside " + j.plan.Cells[one.beside].Name
	one.Name, one.Title, one.Unit = one.Name+" "+beside, one.Title+", "+beside, times
	return one
}

// pathsOf are what the round trips of a fleet tell.
func pathsOf(f *fleet.Fleet) []pairs.Result {
	if len(f.Trips) == 0 {
		return nil
	}
	in := pairs.Input{Trips: f.Trips, Smallest: f.Smallest}
	for _, n := range f.Nodes {
		in.Nodes, in.Zones = append(in.Nodes, n.Name), append(in.Zones, n.Zone)
	}
	return pairs.Analyze(in)
}

// medianOf is the median of the numbers among values; NaN if there is none.
func medianOf(values []float64) float64 {
	numbers := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(numbers) == 0 {
		return math.NaN()
	}
	return stat.Median(numbers)
}
