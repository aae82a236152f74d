package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// The codes of the warnings that an analysis gives.
const (
	CodeIncomplete   = "incomplete"          // the run was never finished
	CodeRunning      = "running"             // the run is under way
	CodeFailed       = "failed-trials"       // trials did not succeed
	CodeFewSamples   = "few-samples"         // a cell has too few values for an interval
	CodeFewPairs     = "few-pairs"           // a comparison has too few pairs for an interval
	CodeNoBaseline   = "no-baseline"         // the baseline never succeeded, so nothing can be compared with it
	CodeFewBlocks    = "few-blocks"          // too few blocks for any difference to be significant
	CodeImprecise    = "imprecise"           // the precision asked for was not reached
	CodeControl      = "control-differs"     // the same thing twice gave different results
	CodeDisagree     = "conditions-disagree" // the effect changes its sign between conditions
	CodeZero         = "zero-value"          // values that cannot be compared as a ratio
	CodeDrift        = "drift"               // values or effects changed over the run
	CodeAlike        = "autocorrelation"     // neighbouring blocks are alike
	CodeBimodal      = "bimodal"             // trials fall in two groups
	CodeOutliers     = "outliers"            // trials far from the others
	CodeSteal        = "steal"               // the hypervisor took time away
	CodePressure     = "pressure"            // the machine was busy when trials began
	CodeThrottled    = "throttled"           // a CPU quota that the plan does not set
	CodeResidue      = "residue"             // a table mixes things that are not the same
	CodeOtherRun     = "other-run"           // another run was under way on this machine
	CodeInterrupted  = "interrupted"         // turns change what is measured
	CodeOverhead     = "overhead"            // tare itself used too much of a CPU
	CodeNotApart     = "not-interleaved"     // the compared runs were made one after the other
	CodeOneSided     = "unmatched"           // cells that only some of the runs have
	CodeFewRuns      = "few-runs"            // too few runs for a verdict
	CodeOtherMetrics = "other-definition"    // a metric is defined differently in the runs

	CodePartFailed = "part-failed" // a part of a survey failed, while others did not
	CodePartly     = "partly"      // a part of a survey is not supported
	CodePartApart  = "part-apart"  // a part of a survey ran in another container than usual

	CodeNotInTurn       = "not-in-turn"      // all runs of one group were made before those of another
	CodeOtherExperiment = "other-experiment" // the runs are of different experiments
)

// MinPairs is the number of pairs, or values, that a 95 % interval needs.
const MinPairs = 6

// A warner collects the warnings of one run.
type warner struct {
	table *table
	*Result
	work  []*measure
	known []bench.Note // the notes that samples may have
	list  []bench.Warning
}

// warnings checks a run and returns its warnings in the order in which they are shown.
func warnings(t *table, r *Result, work []*measure, known []bench.Note) []bench.Warning {
	w := &warner{table: t, Result: r, work: work, known: known}
	for _, check := range []func(){
		w.incomplete, w.failed, w.noBaseline,
		w.fewSamples, w.fewPairs, w.fewBlocks, w.control, w.imprecise, w.disagree, w.zero,
		w.interrupted, w.residueInCells, w.residueAcrossCells, w.residueAcrossResumptions, w.notes,
		w.drift, w.autocorrelation, w.bimodal, w.outliers,
		w.steal, w.pressure, w.throttled, w.overhead,
	} {
		check()
	}
	return w.list
}

// add gives a warning about the cells, or about the whole run without any.
func (w *warner) add(code, text, hint string, metric string, cells ...int) {
	slices.Sort(cells)
	w.list = append(w.list,
		bench.Warning{Code: code, Text: text, Hint: hint, Metric: metric, Cells: slices.Compact(cells)})
}

// names lists cells for people, each with its condition if there are conditions.
func (w *warner) names(cells []int) string {
	cells = slices.Compact(slices.Sorted(slices.Values(cells)))
	const most = 6
	var out []string
	for i, c := range cells {
		if i == most && len(cells) > most+1 {
			out = append(out, fmt.Sprintf("%d more", len(cells)-most))
			break
		}
		out = append(out, w.name(c))
	}
	return strings.Join(out, ", ")
}

// withoutControls leaves out controls whose baseline is among the cells, because both
// are the same thing.
func (w *warner) withoutControls(cells []int) []int {
	return slices.DeleteFunc(slices.Clone(cells), func(c int) bool {
		return slices.ContainsFunc(w.table.groups,
			func(g group) bool { return g.control == c && slices.Contains(cells, g.baseline) })
	})
}

// name returns what people call a cell.
func (w *warner) name(cell int) string { return CellName(&w.Header.Plan.Cells[cell]) }

// CellName returns what people call a cell outside of a table of one condition.
func CellName(c *bench.Cell) string {
	if c.Condition == "" {
		return c.Name
	}
	return c.Name + " (" + c.Condition + ")"
}

// moreBlocks advises how to get a number of blocks; 0 = just more. It names --budget if the
// run stopped at its time limit, and --blocks otherwise. what says what the blocks are
// for, such as " for ±3 %", where verdicts name other numbers of blocks.
func (w *warner) moreBlocks(blocks int, what string) string {
	switch {
	case w.Running:
		return "wait until the run has ended"
	case w.Header.MeasuredBy != "":
		return "measure again, and each test more often"
	case w.Incomplete():
		return "finish the run" // another warning says how
	case w.End.Reason == bench.StopAllFailed:
		return "see the failures"
	case blocks > maxBlockFactor*max(w.Blocks, MinPairs):
		return fmt.Sprintf("at this noise level it takes about %s blocks%s: reduce the noise first (tare doctor)",
			unit.Format(float64(roundUp(blocks)), unit.Count), what)
	case w.End.Reason == bench.StopBudget && blocks > 0:
		return fmt.Sprintf("the time limit was reached:%s run it again with %s", what, w.budget(blocks))
	case w.End.Reason == bench.StopBudget:
		return "the time limit was reached: raise --budget"
	case blocks > 0:
		return fmt.Sprintf("about %d blocks are needed%s: --blocks %[1]d", roundUp(blocks), what)
	default:
		return "more blocks may help: --blocks"
	}
}

// maxBlockFactor limits the advice: nobody should run this many times the blocks of a run.
const maxBlockFactor = 20

// roundUp rounds an estimate up to two digits.
func roundUp(n int) int {
	step := 1
	for n/step >= 100 {
		step *= 10
	}
	return (n + step - 1) / step * step
}

// budget turns a number of blocks into the option that allows a new run to have them.
func (w *warner) budget(blocks int) string {
	return "--budget " + BudgetFor(blocks+w.Header.Plan.Warmup, w.BlockTime)
}

// BudgetFor returns the budget for a number of blocks of a known length, with warm-up,
// as --budget takes it. It is rounded up.
func BudgetFor(blocks int, block time.Duration) string {
	need := time.Duration(math.Min(float64(block)*float64(blocks)*1.05, float64(365*24*time.Hour)))
	step := 10 * time.Second
	if need > 5*time.Minute {
		step = time.Minute
	}
	need = max(need+step-1, step) / step * step
	return strings.ReplaceAll(unit.FormatDuration(need), " ", "")
}

func (w *warner) incomplete() {
	if w.Incomplete() {
		most := ""
		if w.Header.Plan.Budget == 0 { // a budget ends most runs long before MaxBlocks
			most = fmt.Sprintf(" of at most %d", w.Header.Plan.MaxBlocks)
		}
		if w.Running {
			w.add(CodeRunning, "the run is under way, so nothing is claimed: it has "+unit.FormatCount(w.Blocks, "block")+most,
				"wait until it has ended", "")
			return
		}
		w.add(CodeIncomplete, "the run was not finished: it has "+unit.FormatCount(w.Blocks, "block")+most,
			"finish it: tare resume "+w.Header.ID, "")
	}
}

func (w *warner) failed() {
	var cells []int
	n := w.Trials.Failed + w.Trials.TimedOut + w.Trials.Skipped
	for _, f := range w.Failures {
		if f.Outcome.Failure() && f.Part == "" {
			cells = append(cells, f.Cell)
			n += f.Warmup
		}
	}
	hint := "see the failures"
	if w.Trials.OK > 0 {
		hint += "; results cover successful trials only"
	}
	if n > 0 {
		w.add(CodeFailed, fmt.Sprintf(
			"%s of %s did not succeed: excluded from every number",
			unit.FormatCount(n, "trial"), w.names(cells)), hint, "", cells...)
	}
}

func (w *warner) fewSamples() {
	var cells []int
	hint := "see the failures"
	all := w.successes()
	for _, g := range w.table.groups {
		for _, cell := range append(slices.Clone(g.cells), g.control) {
			if cell < 0 || all[cell] >= MinPairs || w.table.unsupported[cell] {
				continue
			}
			cells = append(cells, cell)
			if all[cell] > 0 && all[g.baseline] > 0 && w.Blocks < MinPairs { // there were too few blocks
				hint = w.moreBlocks(max(w.Header.Plan.MinBlocks, w.decisiveBlocks()), "")
			}
		}
	}
	if w.Trials.OK > 0 && len(cells) > 0 {
		w.add(CodeFewSamples, fmt.Sprintf("fewer than %d successful trials of %s, so there is no 95 %% interval",
			MinPairs, w.names(w.withoutControls(cells))),
			hint, "", cells...)
	}
}

// decisiveBlocks is the number of blocks from which a difference can be significant; if
// nothing is compared, the number from which a median has an interval.
func (w *warner) decisiveBlocks() int {
	family := 1
	for _, m := range w.primary() {
		family = max(family, m.family)
	}
	return w.table.look.minPairs(family)
}

// noBaseline warns of baselines that never succeeded: more blocks will not help.
func (w *warner) noBaseline() {
	n := w.successes()
	var bases, cells []int
	for _, g := range w.table.groups {
		others := slices.DeleteFunc(slices.Clone(g.cells), func(c int) bool { return n[c] == 0 })
		tried := slices.ContainsFunc(w.Failures, func(f Failure) bool { return f.Cell == g.baseline })
		if tried && n[g.baseline] == 0 && len(others) > 0 {
			bases, cells = append(bases, g.baseline), append(cells, others...)
		}
	}
	if len(cells) > 0 {
		text := "the baseline %s never succeeded, so there is no verdict about %s"
		w.add(CodeNoBaseline, fmt.Sprintf(text, w.names(bases), w.names(cells)),
			"see why it failed, or choose another with --baseline", "", cells...)
	}
}

// successes counts the successful trials of each cell.
func (w *warner) successes() []int {
	n := make([]int, len(w.table.cells))
	for _, r := range w.table.rows {
		n[r.cell]++
	}
	return n
}

// compared calls do for each comparison of each primary metric, summaries apart.
func (w *warner) compared(do func(m *measure, c *compared, e *effect)) {
	for _, m := range w.primary() {
		for i := range m.result.Conditions {
			for _, e := range m.tables[i].effects {
				do(m, m.tables[i], e)
			}
		}
	}
}

func (w *warner) primary() []*measure {
	var out []*measure
	for _, m := range w.work {
		if m.result.Metric.Role == bench.Primary {
			out = append(out, m)
		}
	}
	return out
}

func (w *warner) fewBlocks() {
	most, family := 0, 0
	w.compared(func(m *measure, _ *compared, e *effect) { most, family = max(most, e.cmp.Pairs), m.family })
	if need := w.table.look.minPairs(family); most >= MinPairs && most < need {
		w.add(CodeFewBlocks, fmt.Sprintf("%d pairs are too few: with %d comparisons no difference can be significant",
			most, family),
			w.moreBlocks(int(math.Ceil(float64(need*w.Blocks)/float64(most))), ""), "") // not every block has a pair
	}
}

func (w *warner) control() {
	for _, m := range w.work {
		for _, r := range m.results() {
			if r.Noise == nil || r.Noise.Verdict != Different {
				continue // a summary is in doubt because of its conditions, which are told
			}
			name := w.name(r.Baseline)
			if r == m.result.Summary {
				name = w.table.cells[r.Baseline].Name + " under all conditions"
			}
			w.add(CodeControl, fmt.Sprintf("%s: %s and its control are the same thing, but differ by %s: %s can be trusted here",
				m.result.Metric.Title, name, w.effect(m, r.Noise), doubtful(m, r)),
				"trials may affect those after them: see tare doctor, raise --washout, and run again",
				m.result.Metric.Name, r.Control)
		}
	}
}

// doubtful says which effects cannot be trusted.
func doubtful(m *measure, r *ConditionResult) string {
	if m.result.Metric.Scale == bench.Difference {
		return "no difference up to " + unit.Scale(m.result.Metric.Unit, r.Doubtful).Format(r.Doubtful)
	}
	f := unit.FormatRatios(1/r.Doubtful, r.Doubtful)
	return "nothing between " + f[0] + " and " + f[1]
}

// effect formats an estimate and its interval.
func (w *warner) effect(m *measure, c *Comparison) string {
	if c.Scale == bench.Difference {
		s := unit.Scale(m.result.Metric.Unit, c.Estimate, c.Low, c.High)
		return fmt.Sprintf("%s [%s, %s]", s.Format(c.Estimate), s.Number(c.Low), s.Number(c.High))
	}
	f := unit.FormatRatios(c.Estimate, c.Low, c.High)
	return fmt.Sprintf("%s [%s, %s]", f[0], f[1], f[2])
}

// imprecise names the comparison that is furthest from the precision asked for, and the
// number of blocks after which all comparisons would have theirs.
func (w *warner) imprecise() {
	if w.Incomplete() || w.End.Reason == bench.StopPrecision {
		return
	}
	var worst *effect
	var of *measure
	var asked float64 // of worst
	need := 0
	w.compared(func(m *measure, _ *compared, e *effect) {
		goal := w.Header.Plan.Margin(m.result.Metric.Name).Precision
		if goal <= 0 || e.scale == bench.Difference || !e.cmp.HasInterval || e.cmp.HalfWidth() <= goal {
			return
		}
		if worst == nil || e.cmp.HalfWidth()/goal > worst.cmp.HalfWidth()/asked {
			worst, of, asked = e, m, goal
		}
		need = max(need, pairsFor(e.diffs, math.Log1p(goal), confidence)*w.Blocks/max(1, len(e.diffs)))
	})
	if worst == nil {
		return
	}
	what := " for the precision asked for"
	if least, largest := w.Header.Plan.Precisions(w.Header.Metrics); least == largest {
		what = " for ±" + unit.FormatPercent(asked)
	}
	w.add(CodeImprecise, fmt.Sprintf("asked for ±%s, reached ±%s (%s, %s)",
		unit.FormatPercent(asked), unit.FormatPercent(worst.cmp.HalfWidth()), of.result.Metric.Title, w.name(worst.cell)),
		w.moreBlocks(min(need, bench.MaxBlocks), what), of.result.Metric.Name, worst.cell)
}

func (w *warner) disagree() {
	for _, m := range w.primary() {
		if m.result.Summary == nil {
			continue
		}
		for _, c := range m.result.Summary.Cells {
			var up, down []int
			for _, e := range m.sameName(w.table, c.Name) {
				switch none := fromDistance(0, e.scale); {
				case e.cmp.HasInterval && e.cmp.Low > none:
					up = append(up, e.cell)
				case e.cmp.HasInterval && e.cmp.High < none:
					down = append(down, e.cell)
				}
			}
			if len(up) > 0 && len(down) > 0 {
				w.add(CodeDisagree, fmt.Sprintf("%s: %s is above the baseline in %s and below it in %s",
					m.result.Metric.Title, c.Name, conditions(w.table.cells, up), conditions(w.table.cells, down)),
					"read each condition by itself; the summary hides this",
					m.result.Metric.Name, append(up, down...)...)
			}
		}
	}
}

// conditions lists the conditions of cells.
func conditions(cells []bench.Cell, of []int) string {
	var out []string
	for _, c := range of {
		out = append(out, cells[c].Condition)
	}
	return strings.Join(out, ", ")
}

func (w *warner) zero() {
	for _, m := range w.work {
		dropped := 0
		var cells []int
		for i := range m.result.Conditions {
			for _, e := range m.tables[i].all() {
				if e.dropped > 0 {
					dropped += e.dropped
					cells = append(cells, e.cell)
				}
			}
		}
		if dropped > 0 {
			w.add(CodeZero,
				fmt.Sprintf("%s: %s of %s were dropped because a value is zero, negative or infinite and has no ratio",
					m.result.Metric.Title, unit.FormatCount(dropped, "pair"), w.names(cells)),
				"look at the values: tare export "+w.Header.ID, m.result.Metric.Name, cells...)
		}
	}
}
