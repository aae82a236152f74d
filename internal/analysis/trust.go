package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A TrustLevel says how far a run's findings can be trusted as a whole.
type TrustLevel string

// The levels of trust.
const (
	High    TrustLevel = "high"   // nothing speaks against the run
	Medium  TrustLevel = "medium" // the machine was disturbed, or the run is less precise than it was asked to be
	Low     TrustLevel = "low"    // verdicts are impossible, or are contradicted by the run itself
	NoClaim TrustLevel = "none"   // nothing is compared, so there is no finding to trust
)

// Trust is a judgement of a whole run, or of a comparison of runs. Its Codes are those of the
// warnings that lower it, the worst first.
type Trust struct {
	Level TrustLevel
	Codes []string
	Why   string // the first of Codes in words; empty without one
	// Pairs is how many blocks the best-covered comparison has, and Needed how many it
	// takes before any verdict is possible. Both are 0 where nothing is compared. Among runs,
	// Pairs is 0, and Needed is the runs of each group, or 0 if there are enough.
	Pairs, Needed int
	// Extended is what Needed becomes if the run is extended: the next look has a lower level.
	Extended int
}

// A doubt is a warning that lowers trust.
type doubt struct {
	code  string
	level TrustLevel
	words string
}

// doubts lists those about one run, the worst first. Nothing says that no two cells have a value in the same
// block.
func doubts(nothing bool) []doubt {
	failed := Medium
	if nothing {
		failed = Low
	}
	return []doubt{
		{CodeControl, Low, "the same thing measured twice differs from itself in every row"},
		{CodeFailed, failed, "some trials failed"}, // before what is missing because of it
		{CodePartFailed, Medium, "some parts failed"},
		{CodeNoBaseline, Low, "a baseline always failed"},
		{CodeNotApart, Low, "another program measured one thing after the other"},
		{CodeFewSamples, Low, "too few blocks for any interval"},
		{CodeFewPairs, Low, "too few blocks have a value of both"},
		{CodeFewBlocks, Low, "too few blocks for a verdict"},
		{bench.NoteDamaged, Low, "stored trials are damaged"},
		{CodeRunning, Medium, "the run is under way"},
		{CodeIncomplete, Medium, "the run was not finished"},
		{CodeSteal, Medium, "other virtual machines took CPU time"},
		{CodeOtherRun, Medium, "another run was under way"},
		{CodePressure, Medium, "the machine was busy with other work"},
		{CodeThrottled, Medium, "a CPU quota held the run up"},
		{CodeDrift, Medium, "values drifted during the run"},
		{CodeAlike, Medium, "neighbouring blocks are alike"},
		{CodeDisagree, Medium, "a difference changes its sign between conditions"},
		{CodeInterrupted, Medium, "turns change what is measured"},
		{CodeResidue, Medium, "settings differed between trials"},
		{CodeOverhead, Medium, "tare itself used too much CPU"},
		{CodeImprecise, Medium, "less precise than asked for"},
	}
}

// doubtsAcross lists those about a comparison of runs, the worst first.
func doubtsAcross(of Unit) []doubt {
	apart := "the runs were not interleaved"
	switch of {
	case UnitBlock:
		apart = "one machine on each side"
	case UnitHost:
		apart = "the groups may differ in something else"
	}
	return []doubt{
		{CodeFewRuns, Low, "too few " + string(of) + "s for a verdict"},
		{CodeOtherExperiment, Low, "the runs are of different experiments"},
		{CodeNotInTurn, Low, "the runs did not alternate"},
		{CodeDrift, Medium, "the difference changed while it was measured"},
		{CodeControl, Medium, "in one run, the same thing measured twice differs from itself"},
		{CodeRunning, Medium, "a run is under way"},
		{CodeIncomplete, Medium, "a run was not finished"},
		{CodeFailed, Medium, "some trials failed"},
		{CodePartFailed, Medium, "some parts failed"},
		{CodeNotApart, Medium, apart},
	}
}

// partly words a doubt that concerns a part of a run, while the others have enough; empty if it
// always concerns all of it.
func partly(code string) string {
	switch code {
	case CodeNoBaseline:
		return "a baseline always failed"
	case CodeFewSamples:
		return "some cells have too few values"
	case CodeFewPairs:
		return "some comparisons have too few blocks"
	default:
		return ""
	}
}

// lower takes what the warnings say against a run. Words has better words for a doubt, or none, and says whether it
// concerns a part of the run only: such a doubt is of medium weight.
func (t *Trust) lower(all []doubt, warnings []bench.Warning, words func(code string) (better string, part bool)) {
	var told []doubt
	for _, d := range all {
		if !slices.ContainsFunc(warnings, func(w bench.Warning) bool { return w.Code == d.code }) {
			continue
		}
		better, part := words(d.code)
		d.words = cmp.Or(better, d.words)
		if part {
			d.level = Medium
		}
		told = append(told, d)
	}
	// What is excused weighs less than any other doubt of low trust.
	slices.SortStableFunc(told, func(a, b doubt) int { return cmp.Compare(a.level, b.level) }) // low, medium
	for _, d := range told {
		t.Codes = append(t.Codes, d.code)
	}
	if len(told) == 0 {
		return
	}
	t.Why = cmp.Or(t.Why, told[0].words)
	if t.Level == High || t.Level == Medium {
		t.Level = told[0].level
	}
}

// trialsThat counts trials for which something is true, and says of which cells they are.
func (t *table) trialsThat(is func(s *bench.Sample) bool) string {
	n, counts := 0, make([]int, len(t.cells))
	for i := range t.run.Samples {
		if s := &t.run.Samples[i]; is(s) {
			n++
			counts[s.Trial.Cell]++
		}
	}
	var names []string
	for c := range counts {
		if counts[c] > 0 {
			names = append(names, CellName(&t.cells[c]))
		}
	}
	const most = 3 // names
	if len(names) > most {
		names = []string{unit.FormatCount(len(names), "cell")}
	}
	return unit.FormatCount(n, "trial") + " of " + strings.Join(names, ", ")
}

// trust judges a run by its warnings.
func trust(all *table, r *Result, work []*measure) Trust {
	t, compared := Trust{Level: High}, 0
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary {
			continue
		}
		if m.family > 0 {
			t.Needed, t.Extended = look(r.Looks).minPairs(m.family), look(r.Looks+1).minPairs(m.family)
		}
		for _, c := range m.tables {
			compared += len(c.effects)
			for _, e := range c.effects {
				t.Pairs = max(t.Pairs, e.cmp.Pairs)
			}
		}
	}
	switch {
	case r.Trials.OK == 0:
		t.Level = Low
	case compared == 0:
		t.Level = NoClaim
	}
	t.lower(doubts(compared > 0 && t.Pairs == 0), r.Warnings, func(code string) (better string, part bool) {
		switch {
		case code == CodeControl:
			better = unreliableRows(all, work)
			return better, better != ""
		case code == CodeFailed:
			return all.trialsThat(func(s *bench.Sample) bool { return s.Outcome.Failure() }) + " did not succeed", false
		case code == CodePartFailed:
			return "parts of " + all.trialsThat(func(s *bench.Sample) bool {
				return !s.Trial.Warmup() && s.PartFailed()
			}) + " failed", false
		case t.Needed == 0 || t.Pairs < t.Needed:
			return "", false
		}
		better = partly(code)
		return better, better != ""
	})
	return t
}

// unreliableRows says which rows of the first screen are unreliable; empty if all are that have a control.
func unreliableRows(all *table, work []*measure) string {
	var titles, names []string
	rows, bad := 0, 0
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary {
			continue
		}
		for i := range m.result.Conditions {
			c := &m.result.Conditions[i]
			if c.Noise == nil || c.Noise.Pairs == 0 {
				continue // nothing was measured twice
			}
			if rows++; !c.anyUnreliable() {
				continue
			}
			bad++
			titles, names = append(titles, m.result.Metric.Title), append(names, CellName(&all.cells[c.Baseline]))
		}
	}
	titles, names = slices.Compact(titles), slices.Compact(names)
	const most = 2 // titles
	switch {
	case bad == 0:
		return "the same thing measured twice differs from itself somewhere; all rows hold"
	case bad == rows:
		return ""
	case len(titles) > most || len(names) > 1:
		return fmt.Sprintf("the same thing measured twice differs in %d of %s", bad, unit.FormatCount(rows, "row"))
	}
	return names[0] + ", measured twice, differs from itself in " + strings.Join(titles, " and ")
}
