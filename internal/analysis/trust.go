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
	// Pairs is 0, and Needed is how many units of the comparison each group takes, or 0 if there are enough.
	Pairs, Needed int
	// Extended is what Needed becomes if the run is extended: the next look has a lower level.
	Extended int
}

// A doubt is a warning that lowers trust.
type doubt struct {
	code  string
	level TrustLevel
	words string
	least bool // every other doubt is told first
}

// doubts lists those about one run, the worst first; notes may have more of them. Nothing says that no two cells have
// a value in the same block.
func doubts(nothing bool, notes []bench.Note) []doubt {
	failed := Medium
	if nothing {
		failed = Low
	}
	all := []doubt{
		{code: CodeControl, level: Low, words: "the same thing measured twice differs from itself in every row"},
		{code: CodeFailed, level: failed, words: "some trials failed"}, // before what is missing because of it
		{code: CodePartFailed, level: Medium, words: "some parts failed"},
		{code: CodeNoBaseline, level: Low, words: "a baseline always failed"},
		{code: CodeNotApart, level: Low, words: "another program measured one thing after the other"},
		{code: CodeFewSamples, level: Low, words: "too few blocks for any interval"},
		{code: CodeFewPairs, level: Low, words: "too few blocks have a value of both"},
		{code: CodeFewBlocks, level: Low, words: "too few blocks for a verdict"},
		{code: bench.NoteDamaged, level: Low, words: "stored trials are damaged"},
		{code: CodeRunning, level: Medium, words: "the run is under way"},
		{code: CodeIncomplete, level: Medium, words: "the run was not finished"},
		{code: CodeSteal, level: Medium, words: "other virtual machines took CPU time"},
		{code: CodeOtherRun, level: Medium, words: "another run was under way"},
		{code: CodePressure, level: Medium, words: "the machine was busy with other work"},
		{code: CodeThrottled, level: Medium, words: "a CPU quota held the run up"},
		{code: CodeDrift, level: Medium, words: "values drifted during the run"},
		{code: CodeAlike, level: Medium, words: "neighbouring blocks are alike"},
		{code: CodeDisagree, level: Medium, words: "a difference changes its sign between conditions"},
		{code: CodeInterrupted, level: Medium, words: "turns change what is measured"},
		{code: CodeResidue, level: Medium, words: "settings differed between trials"},
		{code: CodeOverhead, level: Medium, words: "tare itself used too much CPU"},
	}
	for _, n := range notes {
		if n.Doubt != "" {
			all = append(all, doubt{code: n.Code, level: Medium, words: n.Doubt})
		}
	}
	return append(all, doubt{code: CodeImprecise, level: Medium, words: "less precise than asked for"})
}

// doubtsAcross lists those about a comparison of runs, the worst first. OneOfEach says that the groups are called by
// their systems, of each of which there is one machine: who reads the names must be told before anything else.
func doubtsAcross(of Unit, oneOfEach bool) []doubt {
	apart := doubt{code: CodeNotApart, level: Medium, words: "the runs were not interleaved"}
	switch {
	case oneOfEach:
		apart.words = "one machine of each system, which tells nothing about the systems themselves"
	case of == UnitBlock:
		apart.words = "one machine on each side"
	case of == UnitHost:
		apart.words = "the groups may differ in something else"
	}
	all := []doubt{
		{code: CodeFewRuns, level: Low, words: "too few " + string(of) + "s for a verdict"},
		{code: CodeOtherExperiment, level: Low, words: "the runs are of different experiments"},
		{code: CodeNotInTurn, level: Low, words: "the runs did not alternate"},
		{code: CodeDrift, level: Medium, words: "the difference changed while it was measured"},
		{code: CodeControl, level: Medium, words: "in one run, the same thing measured twice differs from itself"},
		{code: CodeRunning, level: Medium, words: "a run is under way"},
		{code: CodeIncomplete, level: Medium, words: "a run was not finished"},
		{code: CodeFailed, level: Medium, words: "some trials failed"},
		{code: CodePartFailed, level: Medium, words: "some parts failed"},
		{code: CodeFewPairs, level: Medium, words: "some comparisons have too few blocks"},
	}
	if oneOfEach {
		return append([]doubt{apart}, all...)
	}
	return append(all, apart)
}

// partly says of a doubt that it concerns a part of a run, while the others have enough, where that can be.
func (d *doubt) partly() {
	switch d.code {
	case CodeNoBaseline:
		d.words = "a baseline always failed"
	case CodeFewSamples:
		d.words = "some cells have too few values"
	case CodeFewPairs:
		d.words = "some comparisons have too few blocks"
	default:
		return
	}
	d.level = Medium
}

// lower takes what the warnings say against a run. Word changes a doubt to say more exactly what it is about.
func (t *Trust) lower(all []doubt, warnings []bench.Warning, word func(*doubt)) {
	var told []doubt
	for _, d := range all {
		if slices.ContainsFunc(warnings, func(w bench.Warning) bool { return w.Code == d.code }) {
			word(&d)
			told = append(told, d)
		}
	}
	// What is excused weighs less than any other doubt of low trust.
	slices.SortStableFunc(told, func(a, b doubt) int {
		switch {
		case a.least == b.least:
			return cmp.Compare(a.level, b.level) // low, medium
		case a.least:
			return 1
		default:
			return -1
		}
	})
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

// trust judges a run by its warnings, some of which are notes of its samples.
func trust(all *table, r *Result, work []*measure, notes []bench.Note) Trust {
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
	t.lower(doubts(compared > 0 && t.Pairs == 0, notes), r.Warnings, func(d *doubt) {
		switch {
		case d.code == CodeControl:
			unreliableRows(d, all, work)
		case d.code == CodeFailed:
			d.words = all.trialsThat(func(s *bench.Sample) bool { return s.Outcome.Failure() }) + " did not succeed"
		case d.code == CodePartFailed:
			d.words = "parts of " + all.trialsThat(func(s *bench.Sample) bool {
				return !s.Trial.Warmup() && s.PartFailed()
			}) + " failed"
		case t.Needed > 0 && t.Pairs >= t.Needed:
			d.partly()
		}
	})
	return t
}

// unreliableRows words the doubt that a control differs: in which rows of the first screen verdicts are
// unreliable. It is of low trust only if no verdict stands.
func unreliableRows(d *doubt, all *table, work []*measure) {
	var titles, names []string
	rows, bad, stand := 0, 0, 0
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary {
			continue
		}
		for _, c := range m.results() {
			if c.Noise == nil || c.Noise.Pairs == 0 {
				continue // nothing was measured twice
			}
			rows++
			unreliable, others := c.countUnreliable()
			stand += others
			if unreliable == 0 {
				continue
			}
			bad++
			switch title := m.result.Metric.Title; {
			case c != m.result.Summary:
				titles, names = append(titles, title), append(names, CellName(&all.cells[c.Baseline]))
			case !slices.Contains(titles, title): // none of its conditions
				titles, names = append(titles, title), append(names, all.cells[c.Baseline].Name)
			}
		}
	}
	titles, names = slices.Compact(titles), slices.Compact(names)
	const most = 2 // titles
	if bad > 0 && stand == 0 {
		return
	}
	d.level = Medium
	switch {
	case bad == 0:
		d.words, d.least = "the same thing measured twice differs from itself, but by too little to matter in any row", true
	case len(titles) > most || len(names) > 1:
		d.words = fmt.Sprintf("the same thing measured twice differs in %d of %s", bad, unit.FormatCount(rows, "row"))
	default:
		d.words = names[0] + ", measured twice, differs from itself in " + strings.Join(titles, " and ")
	}
}
