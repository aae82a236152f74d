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

// Undecidable warns of a plan that cannot tell even a large difference from chance, because
// it has too few blocks for its comparisons, or a budget for too few. Hosts is how many measure
// it together, to be compared with one another. Block is how long a
// block takes; 0 = not known. It is nil if there is nothing to warn of. The number of
// comparisons is the most that the workload can have; metrics without values lower it.
func Undecidable(p bench.Plan, metrics []bench.Metric, hosts int, block time.Duration) *bench.Warning {
	least, need, comparisons := analysis.Decisive(p, metrics, 1)
	fewer := "compare fewer cells"
	if hosts > 1 {
		least, need, comparisons = analysis.DecisiveTogether(p, metrics, hosts)
		fewer = "compare fewer metrics: --primary"
	}
	fit := blocksInBudget(p, block)
	have := min(p.MaxBlocks, fit)
	if have >= need {
		return nil
	}
	what := unit.FormatCount(have, "block")
	if fit < need {
		what += fmt.Sprintf(" (of about %s, in a budget of %s)",
			unit.FormatDuration(block), unit.FormatDuration(p.Budget))
	}
	can := "possibly too few blocks for any verdict"
	if have < least {
		can = "too few blocks for any verdict"
	}
	return &bench.Warning{
		Code: analysis.CodeFewBlocks,
		Text: fmt.Sprintf("%s: %s, but up to %s need up to %d",
			can, what, unit.FormatCount(comparisons, "comparison"), need),
		Hint: "use " + limitsFor(p, need, block) + ", or " + fewer,
	}
}

// limitsFor says which limits a plan needs in place of its own to have so many blocks.
func limitsFor(p bench.Plan, blocks int, block time.Duration) string {
	var limits []string
	if p.MaxBlocks < blocks {
		limits = append(limits, fmt.Sprintf("--blocks %d", blocks))
	}
	if blocksInBudget(p, block) < blocks {
		limits = append(limits, "--budget "+analysis.BudgetFor(blocks+p.Warmup, block))
	}
	return strings.Join(limits, " ")
}

// blocksInBudget is how many blocks begin within the plan's budget, without the warm-up: at least
// one, and no limit if there is no budget or the time of a block is not known.
func blocksInBudget(p bench.Plan, block time.Duration) int {
	if p.Budget == 0 || block == 0 {
		return math.MaxInt
	}
	begun := int((p.Budget + block - 1) / block)
	return max(1, begun-p.Warmup)
}
