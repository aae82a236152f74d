package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

// How much of a plan people are shown: --json has all of it.
const (
	shownBlocks = 5  // of the schedule, after the warm-up
	shownCells  = 40 // of the plan
	shownOrder  = 16 // cells of a block
)

// plannedRun is a plan as --json prints it.
type plannedRun struct {
	Plan     bench.Plan `json:"plan"`
	Schedule [][]int    `json:"schedule"`
	// Expected is how long it takes, from earlier runs on this machine; 0 where
	// there are none.
	ExpectedBlock time.Duration `json:"expected_block_ns,omitempty"`
	Most          time.Duration `json:"most_ns,omitempty"` // 0 = no limit is known
	// Warning says why there can be no verdict, or which comparisons will probably have none, and what helps; nil if all
	// can have one.
	Warning *bench.Warning `json:"warning,omitempty"`
}

func (a *invocation) showPlan(ctx context.Context, name string, o planOptions) error {
	p, err := a.plan(ctx, a.tare, name, o)
	if err != nil {
		return err
	}
	shown := plannedRun{Plan: p.Plan, Schedule: schedule.Blocks(p.Plan)}
	// Without a store there is no estimate; that is no reason not to show the plan.
	_ = a.withRuns(ctx, func(s bench.Store) error {
		shown.ExpectedBlock, shown.Warning = app.ExpectedBlock(ctx, s, p.Plan), app.EarlierOutlook(ctx, s, p.Plan)
		return nil
	})
	shown.Most = app.LongestRun(p.Plan, shown.ExpectedBlock)
	shown.Warning = cmp.Or(app.Undecidable(p.Plan, p.Workload.Metrics(), 1, shown.ExpectedBlock), shown.Warning)
	if a.global.JSON {
		return a.printJSON(shown)
	}
	return writePlan(a.stdout, shown, p, a.lineWidth())
}

func writePlan(w io.Writer, s plannedRun, p *app.Planned, width int) error {
	plan := s.Plan
	fmt.Fprintf(w, "%s: workload %s, seed %d\n", plain.Line(plan.Name), plan.Workload, plan.Seed)
	if plan.Doc != "" {
		term.WriteWrapped(w, "", plan.Doc, width)
	}
	fmt.Fprintln(w)
	writeCells(w, plan, p)
	if out := app.OmittedEngines(plan); out != "" {
		fmt.Fprintln(w)
		term.WriteWrapped(w, "", out, width)
	}
	fmt.Fprintf(w, "\norder in the first blocks, of %d:\n", plan.MaxBlocks)
	for i, order := range s.Schedule[:min(len(s.Schedule), plan.Warmup+shownBlocks)] {
		var cells []string
		for _, c := range order[:min(len(order), shownOrder)] {
			cells = append(cells, plan.Cells[c].FullName())
		}
		if more := len(order) - len(cells); more > 0 {
			cells = append(cells, fmt.Sprintf("… %d more", more))
		}
		name := fmt.Sprint(i - plan.Warmup + 1)
		if i < plan.Warmup {
			name = "warm-up"
		}
		term.WriteWrapped(w, fmt.Sprintf("  %-8s ", name), strings.Join(cells, ", "), width)
	}
	fmt.Fprintln(w)
	if plan.Slice > 0 {
		term.WriteWrapped(w, "turns ", "of "+unit.FormatDuration(plan.Slice)+
			": within each block the cells take turns wherever that changes nothing", width)
	}
	for _, whole := range plan.Whole {
		term.WriteWrapped(w, "whole ", strings.TrimSpace("trials, no turns "+inCondition(whole.Condition))+": "+
			whole.Reason, width)
	}
	if plan.Washout > 0 {
		term.WriteWrapped(w, "waits ", "before each trial until the machine is quiet, for at most "+
			unit.FormatDuration(plan.Washout)+" (washout)", width)
	}
	term.WriteWrapped(w, "stops ", stopRule(plan, p.Workload.Metrics()), width)
	term.WriteWrapped(w, "takes ", duration(s), width)
	if s.Warning != nil {
		term.WriteWrapped(w, "! ", s.Warning.Text+" → "+s.Warning.Hint, width)
	}
	for _, e := range p.Used() {
		if e.Err != nil {
			term.WriteWrapped(w, "! ", fmt.Sprintf("%s cannot be used here: %s", e.Name, e.Err), width)
		}
	}
	return nil
}

func inCondition(condition string) string {
	if condition == "" {
		return ""
	}
	return "under " + condition
}

func writeCells(w io.Writer, plan bench.Plan, p *app.Planned) {
	rows := [][]string{{"CELL", "ENGINE", "CONDITION", "ROLE"}}
	for _, c := range plan.Cells[:min(len(plan.Cells), shownCells)] {
		role := ""
		switch {
		case c.Baseline:
			role = "baseline"
		case c.Control:
			role = "control: the baseline again, to measure noise"
		}
		rows = append(rows, []string{c.Name, engineVersion(c.Engine, p), c.Condition, role})
	}
	term.WriteTable(w, rows, term.Unlimited)
	if more := len(plan.Cells) - shownCells; more > 0 {
		fmt.Fprintf(w, "… %d more (--json shows all)\n", more)
	}
}

func engineVersion(name string, p *app.Planned) string {
	for _, e := range p.Probed {
		if e.Name == name && e.Err == nil && e.Info.Version != "" {
			return name + " " + e.Info.Version
		}
	}
	return name
}

// stopRule says in words when the run ends.
func stopRule(p bench.Plan, metrics []bench.Metric) string {
	text := "after "
	if p.Budget > 0 {
		text += unit.FormatDuration(p.Budget) + " or "
	}
	text += unit.FormatCount(p.MaxBlocks, "block")
	_, _, comparisons := analysis.Decisive(p, metrics, 1)
	// else it comes too late to stop anything, or waits for nothing
	if precision := precisionText(p, metrics); precision != "" && p.MinBlocks < p.MaxBlocks && comparisons > 0 {
		text += fmt.Sprintf(", or sooner, if every primary comparison is precise to %s after at least %s", precision,
			unit.FormatCount(p.MinBlocks, "block"))
	}
	return text
}

// precisionText says how precise a plan wants its primary metrics; empty if precision does not stop it.
func precisionText(p bench.Plan, metrics []bench.Metric) string {
	least, largest := p.Precisions(metrics)
	switch {
	case largest == 0:
		return ""
	case least == largest:
		return "±" + unit.FormatPercent(least)
	default:
		return "±" + unit.FormatPercent(least) + " to ±" + unit.FormatPercent(largest) + ", depending on the metric"
	}
}

// duration says in words how long the run takes.
func duration(s plannedRun) string {
	var text string
	if s.Most > 0 {
		text = "at most about " + unit.FormatDuration(s.Most)
	} else {
		text = "as long as it needs: there is no time limit"
	}
	if s.ExpectedBlock > 0 {
		return fmt.Sprintf("%s; a block took about %s in earlier runs here", text, unit.FormatDuration(s.ExpectedBlock))
	}
	return text + "; no estimate for a block yet: nothing like it has run here"
}
