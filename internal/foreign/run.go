package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// maxCells is how many conditions a run can have: the limit of the stored format.
const maxCells = 4096

// Run makes the run of a set. It has no ID yet, and tool is the version of tare. Every trial is a
// sample, failed ones too; the n-th trial of each condition is in block n.
func (s *Set) Run(tool string) (*bench.Run, error) {
	if len(s.Trials) == 0 {
		return nil, errors.New("there are no results")
	}
	trials, metrics := s.inTime(), s.measured()
	conditions, facts := s.split()
	cells, of := s.cells(trials, conditions)
	if len(cells) > maxCells {
		return nil, fmt.Errorf("%d combinations of %s; a run has at most %d", len(cells), strings.Join(conditions, ", "),
			maxCells)
	}
	run := &bench.Run{Header: bench.Header{
		Tool: tool, Began: s.Found.UTC(), MeasuredBy: s.Program, Metrics: metrics, Host: s.Host, Warnings: s.warnings(),
		Engines: []bench.EngineInfo{{Name: s.Subject, Driver: s.Program, Version: s.Version, Facts: facts}},
	}}
	if len(trials) > 0 && !trials[0].Began.IsZero() {
		run.Header.Began = trials[0].Began.UTC()
	}
	blocks, end := make([]int, len(cells)), run.Header.Began
	for i, t := range trials {
		at := bench.Trial{Seq: i, Block: blocks[of[i]], Cell: of[i]}
		run.Samples = append(run.Samples, t.sample(at, metrics))
		blocks[of[i]]++
		if ended := t.Began.Add(t.Elapsed); ended.After(end) {
			end = ended.UTC()
		}
	}
	run.Header.Plan = bench.Plan{
		Name: s.Program, Doc: s.Doc, Workload: s.Workload, Factors: factors(cells), Cells: cells, Labels: s.Labels,
		MinBlocks: 1, MaxBlocks: slices.Max(append(blocks, 1)),
	}
	run.End = &bench.End{Time: end, Reason: bench.StopBlocks}
	return run, nil
}

// split says which levels are conditions, in order of appearance, and which are facts. What a failed
// trial does not know does not count.
func (s *Set) split() (conditions []string, facts []bench.Label) {
	var names []string
	for _, t := range s.Trials {
		for _, l := range t.Levels {
			if !slices.Contains(names, l.Key) {
				names = append(names, l.Key)
			}
		}
	}
	facts = slices.Clone(s.Facts)
	for _, name := range names {
		var values []string
		for _, t := range s.Trials {
			v := t.levels([]string{name})[0]
			if isKnown := t.Failed == "" || v != none && v != Unknown; isKnown && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		switch {
		case len(values) > 1 || slices.Contains(s.Conditions, name):
			conditions = append(conditions, name)
		case len(values) == 1 && values[0] != none:
			facts = append(facts, bench.Label{Key: name, Value: values[0]})
		}
	}
	return conditions, facts
}

// inTime sorts the trials by time, if all have one.
func (s *Set) inTime() []Trial {
	all := slices.Clone(s.Trials)
	if !slices.ContainsFunc(all, func(t Trial) bool { return t.Began.IsZero() }) {
		slices.SortStableFunc(all, func(a, b Trial) int { return a.Began.Compare(b.Began) })
	}
	return all
}

// measured lists the metrics that some trial has.
func (s *Set) measured() []bench.Metric {
	return slices.DeleteFunc(slices.Clone(s.Metrics), func(m bench.Metric) bool {
		return !slices.ContainsFunc(s.Trials, func(t Trial) bool {
			_, ok := t.Values[m.Name]
			return ok && t.Failed == ""
		})
	})
}

// cells makes a cell of each combination of conditions, and says which one each trial is of.
func (s *Set) cells(trials []Trial, conditions []string) (cells []bench.Cell, of []int) {
	levels := make([][]string, len(trials))
	keys := make([]string, len(trials))
	known := map[string][]string{}
	for i := range trials {
		levels[i] = trials[i].levels(conditions)
		keys[i] = strings.Join(levels[i], "\x00")
		known[keys[i]] = levels[i]
	}
	combinations := slices.SortedFunc(maps.Values(known), func(a, b []string) int {
		return slices.CompareFunc(a, b, compareLevels)
	})
	at := make(map[string]int, len(combinations))
	for i, values := range combinations {
		at[strings.Join(values, "\x00")] = i
		cells = append(cells, s.cell(conditions, values))
	}
	for _, key := range keys {
		of = append(of, at[key])
	}
	return cells, of
}

// levels are the trial's values of some conditions.
func (t *Trial) levels(conditions []string) []string {
	out := make([]string, len(conditions))
	for i, name := range conditions {
		out[i] = none
		for _, l := range t.Levels {
			if l.Key == name && l.Value != "" {
				out[i] = l.Value
			}
		}
	}
	return out
}

// none is the level of a trial that has none.
const none = "none"

func (s *Set) cell(conditions, values []string) bench.Cell {
	c := bench.Cell{Name: s.Subject, Engine: s.Subject, Baseline: true, Params: map[string]string{}}
	var parts []string
	for i, name := range conditions {
		c.Levels = append(c.Levels, bench.Label{Key: name, Value: values[i]})
		c.Params[name] = values[i]
		parts = append(parts, name+"="+values[i])
	}
	c.Condition = strings.Join(parts, ",")
	return c
}

// compareLevels sorts numbers by size, and before words.
func compareLevels(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil && x != y:
		return cmp.Compare(x, y)
	case (errX == nil) != (errY == nil) && errX == nil:
		return -1
	case (errX == nil) != (errY == nil):
		return 1
	}
	return strings.Compare(a, b)
}

// factors lists the conditions with their levels.
func factors(cells []bench.Cell) (all []bench.Factor) {
	for i, l := range cells[0].Levels {
		f := bench.Factor{Name: l.Key, Condition: true}
		for _, c := range cells {
			if v := c.Levels[i].Value; !slices.Contains(f.Levels, v) {
				f.Levels = append(f.Levels, v)
			}
		}
		slices.SortFunc(f.Levels, compareLevels)
		all = append(all, f)
	}
	return all
}

// sample makes a sample of a trial.
func (t *Trial) sample(at bench.Trial, metrics []bench.Metric) bench.Sample {
	out := bench.Sample{Trial: at, Began: t.Began.UTC(), Elapsed: max(0, t.Elapsed), Outcome: bench.OK}
	if t.Began.IsZero() {
		out.Began = time.Time{}
	}
	if t.Failed != "" {
		out.Outcome, out.Reason = bench.Failed, t.Failed
		return out
	}
	for _, m := range metrics {
		v, ok := t.Values[m.Name]
		if !ok {
			v = math.NaN()
		}
		out.Values = append(out.Values, v)
	}
	if out.Values == nil {
		out.Values = []float64{}
	}
	out.Series, out.Distributions = t.Series, t.Distributions
	return out
}

// warnings are the notes, after the one that all imports have.
func (s *Set) warnings() []bench.Warning {
	hint := "'tare compare' shows by how much imported runs differ, without a verdict unless there are several of each"
	if s.Workload != "" {
		hint = "to compare, measure with 'tare run " + s.Workload + "'; " + hint
	}
	all := []bench.Warning{{
		Code: CodeNotApart,
		Text: s.Program + " measured one thing after the other, not interleaved: what changed on the machine " +
			"meanwhile cannot be told from what is compared",
		Hint: hint,
	}}
	for _, n := range s.Notes {
		all = append(all, bench.Warning{Code: n.Code, Text: n.Text, Hint: n.Hint})
	}
	return all
}
