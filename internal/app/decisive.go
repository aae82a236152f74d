package app

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Undecidable warns of a plan that can tell no difference from chance, however large:
// its blocks are too few for its comparisons, or its budget is, where it is known how
// long a block takes (0 = it is not). Nil where it can. The comparisons are as many as
// the workload can have; where some metrics have no value there are fewer.
func Undecidable(p bench.Plan, metrics []bench.Metric, block time.Duration) *bench.Warning {
	least, need, comparisons := analysis.Decisive(p, metrics, 1)
	fit := fitting(p, block)
	have := min(p.MaxBlocks, fit)
	if have >= need {
		return nil
	}
	what, hint := unit.FormatCount(have, "block"), ""
	if p.MaxBlocks < need {
		hint = fmt.Sprintf("--blocks %d ", need)
	}
	if fit < need {
		what += fmt.Sprintf(" (of about %s, in a budget of %s)",
			unit.FormatDuration(block), unit.FormatDuration(p.Budget))
		hint += "--budget " + analysis.BudgetFor(need+p.Warmup, block)
	}
	can := "may be too few to tell any difference from chance"
	if have < least {
		can = "cannot tell any difference from chance"
	}
	return &bench.Warning{
		Code: analysis.CodeFewBlocks,
		Text: fmt.Sprintf("%s %s, however large: with up to %s it takes up to %d",
			what, can, unit.FormatCount(comparisons, "comparison"), need),
		Hint: strings.TrimSpace(hint) + ", or compare less",
	}
}

// fitting is how many blocks begin within the plan's budget, warm-up apart: one at least,
// and as many as anybody likes where there is no budget or where it is not known.
func fitting(p bench.Plan, block time.Duration) int {
	if p.Budget == 0 || block == 0 {
		return math.MaxInt
	}
	begun := int((p.Budget + block - 1) / block)
	return max(1, begun-p.Warmup)
}
