package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Outlook says what a run of a plan will probably leave undecided, judged by blocks of such a run: those of an earlier
// one, or its own first ones. By names them. It is nil where probably all will be decided, and where Undecidable has
// something to say.
func Outlook(p bench.Plan, judged *bench.Run, by string) *bench.Warning {
	block := analysis.BlockTime(judged)
	blocks := min(p.MaxBlocks, blocksInBudget(p, block))
	run := *judged
	run.Header.Plan.Smallest = p.Smallest
	o, err := analysis.OutlookOf(&run, blocks)
	if err != nil || o.Unclear == 0 || Undecidable(p, judged.Header.Metrics, 1, block) != nil {
		return nil
	}
	w := &bench.Warning{
		Code: analysis.CodeImprecise,
		Text: fmt.Sprintf("by %s, about %d of %s will be undecided after %s", by, o.Unclear,
			unit.FormatCount(o.Compared, "comparison"), unit.FormatCount(blocks, "block")),
		Hint: "'tare doctor' shows what disturbs this machine",
	}
	// Those that can be decided in a time that anybody has.
	n := sort.Search(len(o.Needs), func(i int) bool { return time.Duration(o.Needs[i])*block > report.Longest })
	switch {
	case n == o.Unclear:
		w.Hint = limitsFor(p, o.Needs[n-1], block) + " may decide all"
	case n > 0:
		w.Hint = fmt.Sprintf("%s may decide %d of them", limitsFor(p, o.Needs[n-1], block), n)
	}
	return w
}

// EarlierOutlook is the Outlook by the newest run of the same cells that ended on this machine; nil without one.
func EarlierOutlook(ctx context.Context, s bench.Store, p bench.Plan) *bench.Warning {
	want := sameCells(p)
	for r, err := range earlierRuns(ctx, s, p) {
		if err != nil {
			return nil
		}
		if r.End == nil || !bytes.Equal(sameCells(r.Header.Plan), want) {
			continue
		}
		stored, err := s.Open(ctx, r.Header.ID)
		if err != nil {
			return nil
		}
		return Outlook(p, stored, "run "+NewShortener(ctx, s).Short(ctx, r.Header.ID))
	}
	return nil
}

// sameCells is the same for plans that differ in nothing but in how long they measure, and in what they are called.
func sameCells(p bench.Plan) []byte {
	text, _ := json.Marshal(bench.Plan{ // it has nothing that JSON cannot write
		Workload: p.Workload, Cells: p.Cells, Slice: p.Slice, Whole: p.Whole, Plants: p.Plants, Syscalls: p.Syscalls,
		Hooks: p.Hooks, Restrict: p.Restrict, Margins: p.Margins,
	})
	return text
}
