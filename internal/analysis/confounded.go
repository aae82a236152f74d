package analysis

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// nothingInCommon explains why the runs cannot be compared.
func (c *contrastBuilder) nothingInCommon() error {
	var have []string
	for _, t := range c.tables {
		var names []string
		for i := range t.cells {
			if !t.cells[i].Control {
				names = append(names, CellName(&t.cells[i]))
			}
		}
		have = append(have,
			fmt.Sprintf("run %s (%s) has the cells %s", t.run.Header.ID, t.run.Header.Plan.Workload, strings.Join(names, ", ")))
	}
	return fmt.Errorf("%w: %s", ErrNothingInCommon, strings.Join(have, "; "))
}

// warn adds the warnings: what a comparison of separate runs cannot tell.
func (c *contrastBuilder) warn() {
	var all []facts
	for _, t := range c.tables {
		h := &t.run.Header
		all = append(all, facts{h.Host, h.Tool, h.Engines, h.MeasuredBy != ""})
	}
	c.Differ = differences(all)
	for i := range c.Differ {
		if c.Differ[i].What != hostDiffers { // which says it by itself
			c.Differ[i].tell(c.groupOf)
		}
	}
	other := c.experiments()
	if other != nil {
		c.add(CodeOtherExperiment, "the runs are of different experiments ("+strings.Join(other, ", ")+
			"): cells and metrics with the same name may mean different things", "compare runs of one experiment", "")
	} else {
		c.Differ = slices.Concat(c.Differ, c.specDifferences(), c.programDifferences())
	}
	what := c.carries()
	if len(c.Differ) > 0 {
		var s []string
		for _, d := range c.Differ {
			s = append(s, d.String())
		}
		what += "; the runs differ in " + strings.Join(s, ", ")
	}
	if other != nil { // added after the sentence above: it has a warning of its own
		c.Differ = append(c.Differ, Residue{What: "experiment", Values: other})
	}
	hint := "if possible, measure what is compared in one run: then it is interleaved"
	if c.Unit != UnitRun || c.differInHost() {
		hint = "measure several hosts of each kind, and compare groups of them with --by"
	}
	c.add(CodeNotApart, what, hint, "")
	c.warnNotInterleaved()
	if other == nil { // more runs of two experiments would not tell more
		c.warnRuns()
	}
	c.warnChanging()
	c.warnUnmatched()
	c.warnOtherMetrics()
	c.warnZero()
	for _, t := range c.tables {
		switch {
		case c.running(t):
			c.add(CodeRunning, "run "+t.run.Header.ID+" is under way, so nothing is claimed", "wait until it has ended", "")
		case t.run.End == nil:
			c.add(CodeIncomplete, "run "+t.run.Header.ID+" was not finished", "finish it: tare resume "+t.run.Header.ID, "")
		}
		c.warnFailures(t)
	}
	c.warnControls()
}

// warnFailures warns of trials of a run that did not succeed, and of parts that failed in others.
func (c *contrastBuilder) warnFailures(t *table) {
	of := "run " + t.run.Header.ID
	if j := t.run.Header.Joint; j != nil {
		of += " on host " + j.Host
	}
	why := "see why: tare show " + t.run.Header.ID
	if n := t.trials.Failed + t.trials.TimedOut + t.trials.Skipped; n > 0 {
		c.add(CodeFailed, fmt.Sprintf("%s of %s did not succeed: excluded from every number",
			unit.FormatCount(n, "trial"), of), why, "")
	}
	var parts []string
	trials, reason := 0, ""
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		if s.Trial.Warmup() || !s.PartFailed() {
			continue
		}
		trials++
		for _, p := range s.Parts {
			if p.Outcome == bench.Failed {
				parts, reason = appendUnique(parts, p.Part), cmp.Or(reason, bench.BriefReason(p.Reason))
			}
		}
	}
	in := unit.FormatCount(trials, "trial") + " of " + of
	switch len(parts) {
	case 0:
	case 1:
		c.add(CodePartFailed, fmt.Sprintf("part %s failed in %s and has no value there: %s", parts[0], in, reason), why, "")
	default:
		c.add(CodePartFailed, fmt.Sprintf("parts failed in %s and have no value there: %s; the first, %s: %s", in,
			strings.Join(parts, ", "), parts[0], reason), why, "")
	}
}

// warnNotInterleaved warns if all runs of one group were made before those of another, though
// there are several: then the groups do not even share the hour.
func (c *contrastBuilder) warnNotInterleaved() {
	if len(c.tables) == len(c.Groups) {
		return // one run each, which has a warning of its own
	}
	first, last := c.Groups[0].startTimes()
	var apart []string
	for _, g := range c.Groups[1:] {
		if a, b := g.startTimes(); b.Before(first) || a.After(last) {
			apart = append(apart, g.Name)
		}
	}
	if apart != nil {
		c.add(CodeNotInTurn, fmt.Sprintf("the runs did not alternate: all runs of %s were made before, or all after, "+
			"those of %s, so any change in between is part of the difference",
			strings.Join(apart, ", "), c.Groups[0].Name),
			"alternate between the groups, one run each", "")
	}
}

// startTimes returns when the first and the last run of a group began.
func (g *Group) startTimes() (first, last time.Time) {
	first, last = g.Runs[0].Header.Began, g.Runs[0].Header.Began
	for _, m := range g.Runs[1:] {
		if t := m.Header.Began; t.Before(first) {
			first = t
		} else if t.After(last) {
			last = t
		}
	}
	return first, last
}

// experiments names the experiments of the runs; nil if there is only one. If there
// are several, nearly all options differ, so they are not listed.
func (c *contrastBuilder) experiments() []string {
	var names, workloads []string
	for _, t := range c.tables {
		p := &t.run.Header.Plan
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
		if !slices.Contains(workloads, p.Workload) {
			workloads = append(workloads, p.Workload)
		}
	}
	switch {
	case len(names) > 1:
		return names
	case len(workloads) > 1:
		return workloads
	default:
		return nil
	}
}

// warnControls names the metrics that are unreliable in a run taken by itself.
func (c *contrastBuilder) warnControls() {
	var runs []string
	for _, t := range c.tables {
		if titles := c.unreliable(t); titles != nil {
			runs = append(runs, t.run.Header.ID+" ("+strings.Join(titles, ", ")+")")
		}
	}
	if runs != nil {
		c.add(CodeControl, "the baseline and its control are the same thing, but differ in run "+strings.Join(runs, ", ")+
			": of these metrics, trust only differences in that run that are many times larger",
			"look at that run: tare show RUN", "")
	}
}

// unreliable lists the metrics in which a run's control differs from its baseline.
func (c *contrastBuilder) unreliable(t *table) []string {
	if !slices.ContainsFunc(t.groups, func(g group) bool { return g.control >= 0 }) {
		return nil
	}
	alone, err := Analyze(t.run, Options{Smallest: c.opt.Smallest})
	if err != nil {
		return nil // cannot happen: newTable accepted this run
	}
	var titles []string
	for _, m := range alone.Metrics {
		unreliable := slices.ContainsFunc(m.Conditions, func(r ConditionResult) bool { return r.Unreliable })
		if unreliable &&
			slices.ContainsFunc(c.Metrics, func(o ContrastMetric) bool { return o.Metric.Name == m.Metric.Name }) {
			titles = append(titles, m.Metric.Title)
		}
	}
	return titles
}

// specDifferences lists the options, of the workload and of the container, that the runs set
// differently for the same cell. If several cells differ in one option, the first is
// the example.
func (c *contrastBuilder) specDifferences() []Residue {
	var out []Residue
	for _, g := range c.tables[0].groups {
		for _, cell := range g.cells {
			k := key{g.condition, c.tables[0].cells[cell].Name}
			var options []map[string]string
			var of []string // the groups of the runs that have them
			for i, t := range c.tables {
				if cell, _, ok := t.find(k); ok {
					o := optionsOf(&t.cells[cell])
					if slice := t.run.Header.Plan.Slice; slice > 0 { // others have run whole trials
						o["turns"] = slice.String()
					}
					options, of = append(options, o), append(of, c.groupOf[i])
				}
			}
			for _, d := range optionDifferences(options) {
				if !slices.ContainsFunc(out, func(o Residue) bool { return o.What == d.What }) {
					d.tell(of)
					out = append(out, d)
				}
			}
		}
	}
	return out
}

// programDifferences lists the programs beside the engines, builders and compose programs, that made something for
// the same cell and were not the same: an option such as "auto" takes what a host has. If several cells differ, the
// first is the example. Where none is known, a part may have failed.
func (c *contrastBuilder) programDifferences() []Residue {
	var out []Residue
	for _, kind := range []struct {
		what string
		of   func(a *bench.Applied) string
	}{
		{"build program", func(a *bench.Applied) string { return a.Builder }},
		{"compose program", func(a *bench.Applied) string { return a.Maker }},
	} {
		var programs [][]string // parallel to tables, by cell
		for _, t := range c.tables {
			programs = append(programs, t.programs(kind.of))
		}
		if r := c.programDifference(kind.what, programs); r != nil {
			r.tell(c.groupOf)
			out = append(out, *r)
		}
	}
	return out
}

// programDifference is how the programs of the first cell differ that has different ones; nil if none has.
func (c *contrastBuilder) programDifference(what string, programs [][]string) *Residue {
	for _, g := range c.tables[0].groups {
		for _, cell := range g.cells {
			k := key{g.condition, c.tables[0].cells[cell].Name}
			r := residueOf(what, len(c.tables), func(i int) (string, bool) {
				at, _, ok := c.tables[i].find(k)
				if !ok {
					return "", false
				}
				return programs[i][at], programs[i][at] != ""
			})
			if r != nil {
				return r
			}
		}
	}
	return nil
}

// programs are those that made something for each cell, in the first trial that says it; empty = none.
func (t *table) programs(of func(a *bench.Applied) string) []string {
	all := make([]string, len(t.cells))
	for i := range t.run.Samples {
		if s := &t.run.Samples[i]; s.Applied != nil && all[s.Trial.Cell] == "" {
			all[s.Trial.Cell] = of(s.Applied)
		}
	}
	return all
}

// optionsOf returns a cell's options of its workload and its container's Spec, as text.
func optionsOf(c *bench.Cell) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(c.Spec)
	for i := range v.NumField() {
		if text, err := json.Marshal(v.Field(i).Interface()); err == nil && !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out[name] = strings.Trim(string(text), `"`)
		}
	}
	maps.Copy(out, c.Params)
	return out
}

// optionDifferences lists the options that differ, by name.
func optionDifferences(options []map[string]string) []Residue {
	names := map[string]bool{}
	for _, o := range options {
		for name := range o {
			names[name] = true
		}
	}
	var out []Residue
	for _, name := range slices.Sorted(maps.Keys(names)) {
		r := residueOf(name, len(options), func(i int) (string, bool) { return options[i][name], true })
		if r != nil {
			out = append(out, *r)
		}
	}
	return out
}

func (c *contrastBuilder) add(code, text, hint, metric string) {
	c.Warnings = append(c.Warnings, bench.Warning{Code: code, Text: text, Hint: hint, Metric: metric})
}

// warnRuns warns if the runs are too few for any verdict, and says how many would be
// enough: the smallest p-value of two groups is the one where all values of one group
// lie above all values of the other.
func (c *contrastBuilder) warnRuns() {
	if c.Unit == UnitBlock {
		c.warnPairs()
		return
	}
	word := string(c.Unit)
	family, fewest, most := 0, math.Inf(1), 0.0
	c.eachComparison(bench.Primary, func(_ *ContrastMetric, _ *ContrastRow, first, v *Values) {
		family++
		ways := orderings(first.N, v.N)
		fewest, most = min(fewest, ways), max(most, ways)
	})
	if family == 0 || 2/fewest*float64(family) <= alpha {
		return
	}
	need := stat.MinPerSide(confidence, family)
	c.Trust.Needed = need
	text := fmt.Sprintf("with so few %ss and %s, no difference can be significant",
		word, unit.FormatCount(family, "comparison"))
	switch {
	case most == orderings(1, 1):
		c.Trust.Why = "one " + word + " each cannot tell"
		text = fmt.Sprintf("%s: a %s affects all of its trials, and only more %ss show by how much", c.Trust.Why, word, word)
	case 2/most*float64(family) <= alpha:
		text = fmt.Sprintf("some groups have too few %ss for any significant difference", word)
	}
	hint := fmt.Sprintf("run each %d times, in turn%s", need, c.groupHint())
	if c.Unit == UnitHost {
		hint = fmt.Sprintf("measure %d hosts of each group", need)
	}
	c.add(CodeFewRuns, fmt.Sprintf("%s; %d %ss of each would be enough", text, need, word), hint, "")
}

// groupHint says how to mark the runs of each side. Runs of different hosts need no
// mark: they are grouped by host.
func (c *contrastBuilder) groupHint() string {
	hosts := make(map[string]bool)
	for _, t := range c.tables {
		hosts[HostName(&t.run.Header.Host)] = true
	}
	if len(hosts) == len(c.Groups) {
		return ", and compare all of these runs"
	}
	return ", with --label side=NAME; then tare compare RUN... --by label:side"
}

// orderings is the number of orders of n and m values by group: n+m choose n.
func orderings(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= min(n, m); i++ {
		ways *= float64(n+m-min(n, m)+i) / float64(i)
	}
	return ways
}

// warnUnmatched names cells that not all runs have.
func (c *contrastBuilder) warnUnmatched() {
	runs := make(map[key]int)
	for _, t := range c.tables {
		for i := range t.cells {
			if !t.cells[i].Control {
				runs[key{t.cells[i].Condition, t.cells[i].Name}]++
			}
		}
	}
	var names []string
	for k, n := range runs {
		if n < len(c.tables) {
			names = append(names, CellName(&bench.Cell{Name: k.cell, Condition: k.condition}))
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.add(CodeOneSided, "only some of the runs have "+strings.Join(names, ", "),
			"run the same experiment on both sides", "")
	}
}

// warnOtherMetrics names metrics that the runs define differently.
func (c *contrastBuilder) warnOtherMetrics() {
	names := make(map[string]bool)
	for i, m := range c.tables[0].run.Header.Metrics {
		if c.tables[0].role[i] != bench.Primary && c.tables[0].role[i] != bench.Detail {
			continue
		}
		for _, t := range c.tables[1:] {
			same := slices.ContainsFunc(t.run.Header.Metrics, func(o bench.Metric) bool { return o.Name == m.Name })
			if same && t.metric(m) < 0 {
				names[m.Name] = true
			}
		}
	}
	if len(names) > 0 {
		c.add(CodeOtherMetrics,
			"not compared, because the runs define them differently: "+strings.Join(slices.Sorted(maps.Keys(names)), ", "),
			"run both with the same version of tare", "")
	}
}

// warnZero names metrics with values that have no ratio.
func (c *contrastBuilder) warnZero() {
	for _, m := range c.Metrics {
		var names []string
		for _, r := range m.Rows {
			for _, s := range r.Sides[1:] {
				if s.Comparison == nil && s.N > 0 && r.Sides[0].N > 0 && !slices.Contains(names, r.Cell) {
					names = append(names, r.Cell)
				}
			}
		}
		if len(names) > 0 {
			c.add(CodeZero, fmt.Sprintf("%s of %s has values of zero or less, which have no ratio",
				m.Metric.Title, strings.Join(names, ", ")),
				"look at the values: tare export", m.Metric.Name)
		}
	}
}
