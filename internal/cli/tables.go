package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/bucketbench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
)

// The programs whose forms a run can be shown in.
const (
	formBucketbench = "bucketbench"
	formAB          = "ab"
)

// showAs prints a run in the form of another program.
func (a *invocation) showAs(form string, r *bench.Run) error {
	if form == formAB {
		return a.showBlocks(r)
	}
	return a.showTables(r)
}

// checkForm refuses an unknown form, and a form combined with other formats.
func checkForm(as string, others bool) error {
	switch {
	case as == "":
		return nil
	case as != formBucketbench && as != formAB:
		return &usageError{fmt.Errorf("invalid value %q for --as", as), "the forms are bucketbench and ab"}
	case others:
		return &usageError{
			fmt.Errorf("--as %s cannot be combined with another format or list", as),
			"leave out --json, --csv, --markdown, --trials and --applied; 'tare export RUN -f json' has every value",
		}
	}
	return nil
}

// showTables prints bucketbench's tables of a run.
func (a *invocation) showTables(r *bench.Run) error {
	if w := r.Header.Plan.Workload; w != lifecycle.NewThroughput().Name() {
		return &usageError{
			fmt.Errorf("run %s has the workload %s; --as bucketbench needs throughput", r.Header.ID, w),
			"run a bucketbench file, or an experiment with workload: throughput",
		}
	}
	rows, err := tableRows(r)
	if err != nil {
		return fmt.Errorf("run %s: %w", r.Header.ID, err)
	}
	if n := app.FailedTrials(r); n > 0 {
		a.notice("failed trials, which are left out: %d; 'tare show %s --trials' says why they failed", n, r.Header.ID)
	}
	return bucketbench.Tables(a.stdout, rows)
}

// tableRows makes rows of a run's cells, with their numbers of lanes. Controls
// are left out: bucketbench has none.
func tableRows(r *bench.Run) ([]bucketbench.Result, error) {
	var all []bucketbench.Result
	for i, c := range r.Header.Plan.Cells {
		if c.Control {
			continue
		}
		threads, err1 := strconv.Atoi(c.Params["concurrency"])
		iterations, err2 := strconv.Atoi(c.Params["iterations"])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("cell %s: %w", c.FullName(), err)
		}
		name := rowName(&r.Header.Plan, c)
		at := slices.IndexFunc(all, func(o bucketbench.Result) bool { return o.Name == name && o.Iterations == iterations })
		if at < 0 {
			at, all = len(all), append(all, bucketbench.Result{Name: name, Iterations: iterations})
		}
		m := measured(r, i)
		m.Threads = threads
		all[at].Runs = append(all[at].Runs, m)
	}
	return all, nil
}

// rowName is what a cell is called beside its number of lanes.
func rowName(p *bench.Plan, c bench.Cell) string {
	name := strings.Fields(c.Name) // one line, without tabs
	for _, l := range c.Levels {
		isCondition := slices.ContainsFunc(p.Factors, func(f bench.Factor) bool { return f.Condition && f.Name == l.Key })
		if isCondition && l.Key != "concurrency" {
			name = append(name, strings.Fields(l.Key+"="+l.Value)...)
		}
	}
	return plain.Line(strings.Join(name, " "))
}

// measured is what the trials of a cell have together: the median of their
// rates, and every single time.
func measured(r *bench.Run, cell int) bucketbench.Measured {
	m := bucketbench.Measured{Rate: math.NaN()}
	rate := slices.IndexFunc(r.Header.Metrics, func(m bench.Metric) bool { return m.Name == lifecycle.Rate })
	var rates []float64
	for _, s := range r.Samples {
		if s.Trial.Cell != cell || s.Trial.Warmup() || s.Outcome != bench.OK {
			continue
		}
		if v, ok := s.Value(rate); ok {
			rates = append(rates, v)
		}
		for _, one := range timings(s) {
			m.Commands = addTiming(m.Commands, one)
		}
	}
	if len(rates) > 0 {
		m.Rate = stat.Median(rates)
	}
	return m
}

// timings are the commands of one trial: create and start together are one.
func timings(s bench.Sample) []bucketbench.Timing {
	var all []bucketbench.Timing
	var create []float64
	for _, one := range s.Series {
		operation, isErrors := strings.CutPrefix(one.Metric, lifecycle.ErrorsAt)
		t := bucketbench.Timing{Command: bucketbench.CommandOf(operation), Seconds: one.Values}
		switch {
		case t.Command == "":
			continue
		case isErrors:
			t.Seconds, t.Errors = nil, int(one.Values[0])
		case operation == lifecycle.Create:
			create = one.Values
			continue
		case operation == lifecycle.Start:
			t.Seconds = sums(create, one.Values)
		}
		all = append(all, t)
	}
	return all
}

// sums adds up what two operations of the same containers took. Where they are
// not of the same containers, nothing is known.
func sums(a, b []float64) []float64 {
	if len(a) != len(b) {
		return nil
	}
	out := slices.Clone(a)
	for i := range out {
		out[i] += b[i]
	}
	return out
}

// addTiming adds a timing to that of the same command.
func addTiming(all []bucketbench.Timing, t bucketbench.Timing) []bucketbench.Timing {
	i := slices.IndexFunc(all, func(o bucketbench.Timing) bool { return o.Command == t.Command })
	if i < 0 {
		return append(all, bucketbench.Timing{Command: t.Command, Seconds: slices.Clone(t.Seconds), Errors: t.Errors})
	}
	all[i].Seconds = append(all[i].Seconds, t.Seconds...)
	all[i].Errors += t.Errors
	return all
}
