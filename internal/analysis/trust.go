package analysis

import (
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// A TrustLevel says how far a run's findings can be trusted as a whole.
type TrustLevel string

// The levels of trust.
const (
	High   TrustLevel = "high"   // nothing speaks against the run
	Medium TrustLevel = "medium" // the machine was disturbed, or the run is less precise than it was asked to be
	Low    TrustLevel = "low"    // verdicts are impossible, or are contradicted by the run itself
)

// Trust is a judgement of a whole run. Its Codes are those of the warnings that lower it,
// the worst first.
type Trust struct {
	Level TrustLevel
	Codes []string
	// Pairs is how many blocks the best-covered comparison has, and Needed how many it
	// takes before any verdict is possible. Both are 0 where nothing is compared.
	Pairs, Needed int
	// Extended is what Needed becomes if the run is extended: the next look has a lower level.
	Extended int
}

// lowering lists the warnings that lower trust, the worst first.
func lowering() []struct {
	code  string
	level TrustLevel
} {
	return []struct {
		code  string
		level TrustLevel
	}{
		{CodeControl, Low},
		{CodeNoBaseline, Low},
		{CodeFewSamples, Low},
		{CodeFewPairs, Low},
		{CodeFewBlocks, Low},
		{CodeFewRuns, Low},
		{CodeNotApart, Low},
		{CodeNotInTurn, Low},
		{bench.NoteDamaged, Low},
		{CodeFailed, Medium},
		{CodePartFailed, Medium},
		{CodeIncomplete, Medium},
		{CodeSteal, Medium},
		{CodeOtherRun, Medium},
		{CodePressure, Medium},
		{CodeThrottled, Medium},
		{CodeDrift, Medium},
		{CodeAlike, Medium},
		{CodeResidue, Medium},
		{CodeOverhead, Medium},
		{CodeImprecise, Medium},
	}
}

// trust judges a run by its warnings.
func trust(r *Result, work []*measure) Trust {
	t := Trust{Level: High}
	if r.Trials.OK == 0 {
		t.Level = Low
	}
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary || m.family == 0 {
			continue
		}
		t.Needed, t.Extended = look(r.Looks).minPairs(m.family), look(r.Looks+1).minPairs(m.family)
		for _, c := range m.tables {
			for _, e := range c.effects {
				t.Pairs = max(t.Pairs, e.cmp.Pairs)
			}
		}
	}
	few := map[string]bool{CodeNoBaseline: true, CodeFewSamples: true, CodeFewPairs: true}
	for _, l := range lowering() {
		if !slices.ContainsFunc(r.Warnings, func(w bench.Warning) bool { return w.Code == l.code }) {
			continue
		}
		t.Codes = append(t.Codes, l.code)
		switch {
		case t.Level == Low:
		case l.level == Low && few[l.code] && t.Needed > 0 && t.Pairs >= t.Needed: // others have enough
			t.Level = Medium
		default:
			t.Level = l.level
		}
	}
	return t
}
