// Package csv reads a table of values in a form of tare's own, for everything that has no import: docs/import.md
// describes it.
package csv

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads tables of values.
func Source() foreign.Source {
	return foreign.Source{Name: "csv", Doc: "(a table of values; docs/import.md has its columns)", Read: read}
}

const hint = "docs/import.md has the columns of the table"

// The columns that have a meaning. Every other one is a level of the trial.
const (
	colMetric  = "metric"
	colValue   = "value"
	colUnit    = "unit"
	colBetter  = "better"
	colVariant = "variant"
	colTrial   = "trial"
	colBegan   = "began"
	colFailed  = "failed"
)

func known() []string {
	return []string{colMetric, colValue, colUnit, colBetter, colVariant, colTrial, colBegan, colFailed}
}

func read(in *foreign.Input) ([]foreign.Set, error) {
	return in.Each("table of values", hint, readFile)
}

func readFile(f *foreign.File) ([]foreign.Set, error) {
	columns := f.Columns()
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	if !slices.Contains(columns, colMetric) && !slices.Contains(columns, colValue) {
		return nil, nil
	}
	t := &table{file: f.Name, metrics: map[string]*metric{}, variants: map[string]*variant{}}
	for i, c := range columns {
		if slices.Contains(columns[:i], c) {
			return nil, foreign.Errorf(f.Name, 1, hint, "the table has two columns %.40q", c)
		}
		if !slices.Contains(known(), c) && c != "" {
			t.levels = append(t.levels, c)
		}
	}
	for _, c := range []string{colMetric, colValue} {
		if !slices.Contains(columns, c) {
			return nil, foreign.Errorf(f.Name, 1, hint, "the table has no column %s", c)
		}
	}
	if err := f.Rows(t.add); err != nil {
		return nil, err
	}
	return t.sets(), nil
}

// A table is what was read of one.
type table struct {
	file     string
	levels   []string // columns
	order    []string // metrics
	metrics  map[string]*metric
	variants map[string]*variant
	sorted   []*variant
	trials   int
}

// A metric is one of the table.
type metric struct {
	bench.Metric
	written string // the unit, as the table has it
	line    int    // where it was first
}

// A variant becomes a run.
type variant struct {
	name   string
	trials []*foreign.Trial
	at     map[string]int // of trials, by what makes one
	counts map[string]int // values of a metric under some levels
}

// add adds a row.
func (t *table) add(r *foreign.Row) error {
	m, factor, err := t.metric(r)
	if err != nil {
		return err
	}
	value, failed, err := t.value(r)
	if err != nil {
		return err
	}
	began, err := r.Time(colBegan)
	if err != nil {
		return err
	}
	one, err := t.trial(r, m.Name)
	if err != nil {
		return err
	}
	if failed != "" {
		one.Failed, one.Values = failed, nil
	}
	if !began.IsZero() {
		one.Began = began
	}
	if one.Failed != "" {
		return nil
	}
	if _, taken := one.Values[m.Name]; taken {
		return t.errorf(r, "the trial %.40q has two values of %.40q", r.Text(colTrial), m.Name)
	}
	value *= factor
	if value <= 0 {
		m.Scale = bench.Difference
	}
	one.Set(m.Name, value)
	return nil
}

func (t *table) errorf(r *foreign.Row, format string, args ...any) error {
	return foreign.Errorf(r.File, r.Line, hint, format, args...)
}

// maxMetrics is how many metrics a table can have.
const maxMetrics = 256

// metric is the one of a row, and what the value is multiplied by for its base unit.
func (t *table) metric(r *foreign.Row) (*metric, float64, error) {
	name, written := bench.Reason(r.Text(colMetric)), r.Text(colUnit)
	if name == "" {
		return nil, 0, t.errorf(r, "the row has no metric")
	}
	unit, ok := unitNamed(written)
	if !ok {
		return nil, 0, t.errorf(r, "the unit %.20q is unknown; tare knows %s", written, unitNames())
	}
	better := bench.Direction(r.Text(colBetter))
	switch better {
	case "":
		better = bench.Neither
	case bench.Lower, bench.Higher, bench.Neither:
	default:
		return nil, 0, t.errorf(r, "better is %.20q; it must be lower, higher or neither", better)
	}
	m := t.metrics[name]
	if m == nil {
		if len(t.order) == maxMetrics {
			return nil, 0, t.errorf(r, "the table has more than %d metrics", maxMetrics)
		}
		m = &metric{written: written, line: r.Line, Metric: bench.Metric{
			Name: name, Title: name, Unit: unit.base, Better: better, Role: bench.Primary, Scale: bench.Ratio,
			Doc: "As the table has it.",
		}}
		t.metrics[name], t.order = m, append(t.order, name)
	}
	if m.Unit != unit.base || m.Better != better {
		return nil, 0, t.errorf(r, "%.40q is in %q and %s is better; in line %d it is in %q and %s is better", name,
			written, better, m.line, m.written, m.Better)
	}
	return m, unit.factor, nil
}

// value is that of a row, or the reason why there is none.
func (t *table) value(r *foreign.Row) (v float64, failed string, err error) {
	if why := r.Text(colFailed); why != "" {
		return 0, bench.Reason(why), nil
	}
	text := r.Text(colValue)
	v, err = strconv.ParseFloat(text, 64)
	switch {
	case text == "":
		return 0, "", t.errorf(r, "the row has neither a value nor a reason in the column %s", colFailed)
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1e300:
		return 0, "", t.errorf(r, "%.40q is no number", text)
	}
	return v, "", nil
}

// trial is the one that a row belongs to: that of its name or, without names, the one that has as many values
// of this metric before it.
func (t *table) trial(r *foreign.Row, metric string) (*foreign.Trial, error) {
	name := bench.Reason(r.Text(colVariant))
	v := t.variants[name]
	if v == nil {
		v = &variant{name: name, at: map[string]int{}, counts: map[string]int{}}
		t.variants[name], t.sorted = v, append(t.sorted, v)
	}
	var levels []bench.Label
	var key strings.Builder
	for _, c := range t.levels {
		l := foreign.Label(c, r.Text(c))
		levels = append(levels, l)
		key.WriteString(l.Value + "\x00")
	}
	which := r.Text(colTrial)
	if which == "" {
		which = strconv.Itoa(v.counts[key.String()+metric])
		v.counts[key.String()+metric]++
	}
	i, ok := v.at[key.String()+which]
	if !ok {
		if t.trials++; t.trials > foreign.MaxTrials {
			return nil, t.errorf(r, "the table has more than %d trials", foreign.MaxTrials)
		}
		i = len(v.trials)
		v.at[key.String()+which] = i
		v.trials = append(v.trials, &foreign.Trial{Where: fmt.Sprintf("%s:%d", t.file, r.Line), Levels: levels})
	}
	return v.trials[i], nil
}

// sets makes a set of each variant.
func (t *table) sets() (all []foreign.Set) {
	var metrics []bench.Metric
	for _, name := range t.order {
		metrics = append(metrics, t.metrics[name].Metric)
	}
	for _, v := range t.sorted {
		s := foreign.Set{Subject: "result", Program: "another program", Metrics: metrics}
		if v.name != "" {
			s.Labels = []bench.Label{{Key: foreign.LabelVariant, Value: v.name}}
		}
		for _, one := range v.trials {
			s.Trials = append(s.Trials, *one)
		}
		all = append(all, s)
	}
	return all
}

// A unit is one that a table can have.
type unit struct {
	name, base string
	factor     float64
}

// units are all of them, in the order in which people read them.
func units() []unit {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	return []unit{
		{"1", "1", 1},
		{"%", "1", 0.01},
		{"s", "s", 1},
		{"ms", "s", 1e-3},
		{"us", "s", 1e-6},
		{"ns", "s", 1e-9},
		{"min", "s", 60},
		{"B", "B", 1},
		{"kB", "B", 1e3},
		{"MB", "B", 1e6},
		{"GB", "B", 1e9},
		{"KiB", "B", kib},
		{"MiB", "B", mib},
		{"GiB", "B", gib},
		{"1/s", "1/s", 1},
		{"B/s", "B/s", 1},
		{"kB/s", "B/s", 1e3},
		{"MB/s", "B/s", 1e6},
		{"GB/s", "B/s", 1e9},
		{"KiB/s", "B/s", kib},
		{"MiB/s", "B/s", mib},
		{"GiB/s", "B/s", gib},
		{"bit/s", "B/s", 1. / 8},
		{"kbit/s", "B/s", 1e3 / 8},
		{"Mbit/s", "B/s", 1e6 / 8},
		{"Gbit/s", "B/s", 1e9 / 8},
	}
}

// unitNamed finds a unit; without a name it is a number of things.
func unitNamed(name string) (unit, bool) {
	name = strings.Replace(cmp.Or(name, "1"), "µ", "u", 1)
	all := units()
	i := slices.IndexFunc(all, func(u unit) bool { return u.name == name })
	if i < 0 {
		return unit{}, false
	}
	return all[i], true
}

// unitNames are the units for people.
func unitNames() string {
	var all []string
	for _, u := range units() {
		all = append(all, u.name)
	}
	return strings.Join(all, ", ")
}
