package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/host"
	"github.com/tare-bench/tare/internal/plain"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/term"
	"github.com/tare-bench/tare/internal/unit"
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
	// Warning says why no difference can be told from chance, and what would do; nil where it can.
	Warning *bench.Warning `json:"warning,omitempty"`
}

func (a *app) showPlan(ctx context.Context, name string, o planOptions) error {
	p, err := a.plan(ctx, name, o, a.newSite("plan", ""))
	if err != nil {
		return err
	}
	shown := plannedRun{Plan: p.plan, Schedule: schedule.Blocks(p.plan)}
	shown.ExpectedBlock = a.expectedBlock(ctx, p.plan)
	shown.Most = most(p.plan, shown.ExpectedBlock)
	shown.Warning = undecidable(p.plan, p.workload.Metrics(), shown.ExpectedBlock)
	if a.global.JSON {
		return a.printJSON(shown)
	}
	return writePlan(a.stdout, shown, p, a.lineWidth())
}

// expectedBlock adds up what a trial of each cell took in the newest run that
// had such a cell on this machine. It is 0 unless all of them are known.
func (a *app) expectedBlock(ctx context.Context, plan bench.Plan) time.Duration {
	took := map[string]time.Duration{}
	// Without earlier runs, or without a store, there is no estimate; that is
	// no reason not to show the plan.
	_ = a.withRuns(ctx, func(s bench.Store) error { return earlier(ctx, s, plan, took) })
	var block time.Duration
	for _, c := range plan.Cells {
		d, ok := took[kindOfTrial(c)]
		if !ok {
			return 0
		}
		block += d
	}
	return block
}

// kindOfTrial is the same for cells whose trials take about as long: those of one
// engine with the same options.
func kindOfTrial(c bench.Cell) string { return fmt.Sprint(c.Engine, c.Params) }

// earlier fills in the median time of a trial by its kind, from the newest runs
// of this host with the plan's workload.
func earlier(ctx context.Context, s bench.Store, plan bench.Plan, took map[string]time.Duration) error {
	const looks = 5
	facts, seen := host.Facts(fsRoot), 0
	for r, err := range s.Runs(ctx) {
		if err != nil || seen == looks {
			return err
		}
		if r.Header.Host.MachineID != facts.MachineID || r.Header.Plan.Workload != plan.Workload {
			continue
		}
		seen++
		stored, err := s.Open(ctx, r.Header.ID)
		if err != nil {
			return err
		}
		byKind := map[string][]time.Duration{}
		for _, sample := range stored.Samples {
			if sample.Outcome == bench.OK && !sample.Trial.Warmup() {
				kind := kindOfTrial(stored.Header.Plan.Cells[sample.Trial.Cell])
				byKind[kind] = append(byKind[kind], sample.Elapsed)
			}
		}
		for kind, all := range byKind {
			if _, known := took[kind]; !known {
				slices.Sort(all)
				took[kind] = all[len(all)/2]
			}
		}
	}
	return nil
}

// most is the longest that a run can take, as far as is known: a block that has begun
// within the budget is finished, and one is always measured.
func most(plan bench.Plan, block time.Duration) time.Duration {
	if block == 0 {
		return plan.Budget
	}
	return block * time.Duration(plan.Warmup+min(plan.MaxBlocks, fitting(plan, block)))
}

func writePlan(w io.Writer, s plannedRun, p *planned, width int) error {
	plan := s.Plan
	fmt.Fprintf(w, "%s: workload %s, seed %d\n", plain.Line(plan.Name), plan.Workload, plan.Seed)
	if plan.Doc != "" {
		term.WriteWrapped(w, "", plan.Doc, width)
	}
	fmt.Fprintln(w)
	writeCells(w, plan, p)
	if len(plan.LeftOut) > 0 {
		out := leftOut(plan)
		fmt.Fprintln(w)
		term.WriteWrapped(w, "", out.Text+"; "+out.Hint, width)
	}
	fmt.Fprintf(w, "\norder, the first blocks of %d:\n", plan.MaxBlocks)
	for i, order := range s.Schedule[:min(len(s.Schedule), plan.Warmup+shownBlocks)] {
		var cells []string
		for _, c := range order[:min(len(order), shownOrder)] {
			cells = append(cells, cellName(plan.Cells[c]))
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
	term.WriteWrapped(w, "stops ", stopRule(plan, p.workload.Metrics()), width)
	term.WriteWrapped(w, "takes ", duration(s), width)
	if s.Warning != nil {
		term.WriteWrapped(w, "! ", s.Warning.Text+" → "+s.Warning.Hint, width)
	}
	for _, e := range p.used() {
		if e.err != nil {
			term.WriteWrapped(w, "! ", fmt.Sprintf("%s cannot be used here: %s", e.instance.Name, e.err), width)
		}
	}
	return nil
}

func writeCells(w io.Writer, plan bench.Plan, p *planned) {
	rows := [][]string{{"CELL", "ENGINE", "CONDITION", "ROLE"}}
	for _, c := range plan.Cells[:min(len(plan.Cells), shownCells)] {
		role := ""
		switch {
		case c.Baseline:
			role = "baseline"
		case c.Control:
			role = "control: the baseline again, for the noise"
		}
		rows = append(rows, []string{c.Name, engineVersion(c.Engine, p), c.Condition, role})
	}
	term.WriteTable(w, rows, term.Unlimited)
	if more := len(plan.Cells) - shownCells; more > 0 {
		fmt.Fprintf(w, "… %d more (--json shows all)\n", more)
	}
}

func engineVersion(name string, p *planned) string {
	for _, e := range p.probed {
		if e.instance.Name == name && e.err == nil && e.info.Version != "" {
			return name + " " + e.info.Version
		}
	}
	return name
}

// stopRule says in words when the run ends.
func stopRule(p bench.Plan, metrics []bench.Metric) string {
	var rules []string
	if precision := asked(p, metrics); precision != "" && p.MinBlocks < p.MaxBlocks { // else it comes too late to stop anything
		rules = append(rules, fmt.Sprintf("once every primary comparison is known to %s (at least %s)", precision, unit.FormatCount(p.MinBlocks, "block")))
	}
	if p.Budget > 0 {
		rules = append(rules, "after "+unit.FormatDuration(p.Budget))
	}
	rules = append(rules, "after "+unit.FormatCount(p.MaxBlocks, "block"))
	return strings.Join(rules, ", or ")
}

// asked says how precise a plan wants its primary metrics; empty where it does not.
func asked(p bench.Plan, metrics []bench.Metric) string {
	least, largest := p.Precisions(metrics)
	switch {
	case largest == 0:
		return ""
	case least == largest:
		return "±" + unit.FormatPercent(least)
	default:
		return "±" + unit.FormatPercent(least) + " to ±" + unit.FormatPercent(largest) + ", as was asked of each metric"
	}
}

// duration says in words how long the run takes.
func duration(s plannedRun) string {
	var text string
	if s.Most > 0 {
		text = "at most about " + unit.FormatDuration(s.Most)
	} else {
		text = "a time that nothing limits"
	}
	if s.ExpectedBlock > 0 {
		return fmt.Sprintf("%s; one block takes about %s, as in earlier runs here", text, unit.FormatDuration(s.ExpectedBlock))
	}
	return text + "; how long a block takes is known after the first run here"
}
