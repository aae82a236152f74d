package app

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/store/record"
)

// ExpectedBlock adds up what a trial of each cell took in the newest run that
// had such a cell on this machine. It is 0 unless all of them are known: without
// earlier runs that can be read there is no estimate.
func ExpectedBlock(ctx context.Context, s bench.Store, plan bench.Plan) time.Duration {
	took := map[string]time.Duration{}
	_ = earlierTrialTimes(ctx, s, plan, took) // what it has found out until then is known
	var block time.Duration
	for _, c := range plan.Cells {
		d, ok := took[durationClass(c)]
		if !ok {
			return 0
		}
		block += d
	}
	return block
}

// durationClass is the same for cells whose trials take about as long: those of one
// engine with the same options.
func durationClass(c bench.Cell) string { return fmt.Sprint(c.Engine, c.Params) }

// earlierTrialTimes fills in the median time of a trial by its kind, from the newest runs
// of this host with the plan's workload.
func earlierTrialTimes(ctx context.Context, s bench.Store, plan bench.Plan, took map[string]time.Duration) error {
	for r, err := range earlierRuns(ctx, s, plan) {
		if err != nil {
			return err
		}
		byKind := map[string][]time.Duration{}
		for e, err := range record.Stored(ctx, s, r.Header.ID) {
			if err != nil {
				return err
			}
			if sample := e.Sample; sample != nil && sample.Outcome == bench.OK && !sample.Trial.Warmup() {
				kind := durationClass(r.Header.Plan.Cells[sample.Trial.Cell])
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

// earlierRuns are the newest few runs of this host with the plan's workload, the newest first.
func earlierRuns(ctx context.Context, s bench.Store, plan bench.Plan) iter.Seq2[bench.RunSummary, error] {
	const looks = 5
	return func(yield func(bench.RunSummary, error) bool) {
		facts, seen := host.Facts(fsRoot), 0
		for r, err := range s.Runs(ctx) {
			if err != nil {
				yield(r, err)
				return
			}
			if r.Header.Host.MachineID != facts.MachineID || r.Header.Plan.Workload != plan.Workload {
				continue
			}
			if seen++; !yield(r, nil) || seen == looks {
				return
			}
		}
	}
}

// LongestRun is the longest that a run can take, as far as is known: a block that has begun
// within the budget is finished, and one is always measured.
func LongestRun(plan bench.Plan, block time.Duration) time.Duration {
	if block == 0 {
		return plan.Budget
	}
	return block * time.Duration(plan.Warmup+min(plan.MaxBlocks, blocksInBudget(plan, block)))
}
