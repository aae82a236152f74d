package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// The limits for warnings about the shape of the values. They are strict, because a
// run makes dozens of these tests, and nobody reads a warning that is often wrong: on
// clean data fewer than 1 of 20 runs has a false one.
const (
	shapeValues        = 20   // fewer values have no shape
	shapeAlpha         = 0.01 // for a family of tests, adjusted
	valueDrift         = 0.05 // drift of all cells together, which barely affects comparisons
	effectDrift        = 0.02 // drift of a comparison itself
	maxAutocorrelation = 0.3  // autocorrelation above which intervals are much too narrow
	outlierShare       = 0.15 // of the trials
	farOutlier         = 5.0  // times the median
	bimodality         = 1.3  // times the score above which stat calls it clear
)

// A seriesTest is a series that may drift or be autocorrelated.
type seriesTest struct {
	measure *measure
	effect  *effect // nil for the common course of all cells
	group   group
	x       []float64
	p, size float64
}

// suspects tests series, adjusts the p-values, and keeps those below shapeAlpha.
func suspects(all []seriesTest, test func(s *seriesTest)) []seriesTest {
	p := make([]float64, len(all))
	for i := range all {
		test(&all[i])
		p[i] = all[i].p
	}
	var out []seriesTest
	for i, adjusted := range stat.Holm(p) {
		if adjusted < shapeAlpha {
			out = append(out, all[i])
		}
	}
	return out
}

// series lists the comparisons that are long enough to have a shape.
func (w *warner) series() []seriesTest {
	var out []seriesTest
	w.compared(func(m *measure, c *compared, e *effect) {
		if len(e.diffs) >= shapeValues {
			out = append(out, seriesTest{measure: m, effect: e, group: c.group, x: e.diffs})
		}
	})
	return out
}

// drift warns of values and effects that changed over the run. Effects come first,
// because the text about values depends on them.
func (w *warner) drift() {
	all := w.series()
	for _, m := range w.primary() {
		for i := range m.result.Conditions {
			if x := m.common(m.tables[i]); len(x) >= shapeValues {
				all = append(all, seriesTest{measure: m, group: m.tables[i].group, x: x})
			}
		}
	}
	trend := func(s *seriesTest) {
		_, s.p = stat.Trend(s.x)
		third := len(s.x) / 3
		s.size = stat.Median(s.x[len(s.x)-third:]) - stat.Median(s.x[:third])
	}
	for _, s := range suspects(all, trend) {
		if s.effect == nil {
			w.valuesDrift(s)
		} else {
			w.effectDrifts(s)
		}
	}
}

// common returns what all cells of a group have in common in each block: the
// median of their distances from their own medians.
func (m *measure) common(c *compared) []float64 {
	cells := c.cells
	if c.control >= 0 {
		cells = append(cells[:len(cells):len(cells)], c.control)
	}
	scale := m.result.Metric.Scale
	var out []float64
	medians := make([]float64, len(cells))
	for i, cell := range cells {
		medians[i] = median(m.column[cell])
	}
	for block := range m.blocks {
		var away []float64
		for i, cell := range cells {
			away = append(away, distance(m.column[cell][block], medians[i], scale))
		}
		if v := median(away); isUsable(v) {
			out = append(out, v)
		}
	}
	return out
}

// text formats a distance for people.
func (s *seriesTest) text() string {
	if m := s.measure.result.Metric; m.Scale == bench.Difference {
		return unit.Format(math.Abs(s.size), m.Unit)
	}
	// A fall to half and a rise to double are the same distance, but not the same share.
	return unit.FormatPercent(math.Abs(math.Expm1(s.size)))
}

func (s *seriesTest) direction() string {
	if s.size < 0 {
		return "fell"
	}
	return "rose"
}

// toScale turns a relative size into one on the suspect's scale.
func (s *seriesTest) toScale(share float64) float64 {
	if s.measure.result.Metric.Scale == bench.Difference {
		return share * math.Abs(median(s.measure.column[s.group.baseline]))
	}
	return math.Log1p(share)
}

func (w *warner) valuesDrift(s seriesTest) {
	if math.Abs(s.size) < s.toScale(valueDrift) {
		return
	}
	m := s.measure.result.Metric
	where := "in all cells alike: ratios are barely affected; absolute values mix early and late trials"
	if w.effectDrifted(m.Name, s.group.cells) {
		where = "in most cells, but not in all alike: neither values nor ratios describe the whole run"
	}
	w.add(CodeDrift,
		fmt.Sprintf("%s%s %s by %s over the run, %s", m.Title, inCondition(s.group.condition),
			s.direction(), s.text(), where),
		"if it settles after a while, raise --warmup; otherwise stop other work on this machine",
		m.Name, s.group.cells...)
}

// inCondition names a condition, if there is one.
func inCondition(condition string) string {
	if condition == "" {
		return ""
	}
	return " in " + condition
}

func (w *warner) effectDrifts(s seriesTest) {
	if math.Abs(s.size) < max(s.toScale(effectDrift), toDistanceWidth(s.effect.cmp)) {
		return
	}
	m := s.measure.result.Metric
	w.add(CodeDrift, fmt.Sprintf("%s of %s against the baseline %s by %s over the run: one number does not describe it",
		m.Title, w.name(s.effect.cell), s.direction(), s.text()),
		"find out what each trial of this cell leaves behind; raise --washout or --warmup", m.Name, s.effect.cell)
}

// effectDrifted reports whether a warning already says that the comparison of one of
// the cells drifts.
func (w *warner) effectDrifted(metric string, cells []int) bool {
	return slices.ContainsFunc(cells, func(c int) bool { return w.has(CodeDrift, metric, c) })
}

// toDistanceWidth returns the half-width of an interval on the scale of distances.
func toDistanceWidth(c *Comparison) float64 {
	return (toDistance(c.High, c.Scale) - toDistance(c.Low, c.Scale)) / 2
}

// autocorrelation warns of autocorrelation: consecutive blocks resemble each other, so
// intervals are too narrow.
func (w *warner) autocorrelation() {
	lag1 := func(s *seriesTest) { s.size, s.p = stat.Autocorrelation(s.x, 1) }
	for _, s := range suspects(w.series(), lag1) {
		if s.size < maxAutocorrelation || w.has(CodeDrift, s.measure.result.Metric.Name, s.effect.cell) { // drift explains it
			continue
		}
		m := s.measure.result.Metric
		w.add(CodeAlike, fmt.Sprintf(
			"%s of %s: consecutive blocks are correlated (r = %.2f), so the interval is too narrow",
			m.Title, w.name(s.effect.cell), s.size),
			"raise --washout, so that the machine settles between trials; do not trust a difference "+
				"that the interval barely excludes", m.Name, s.effect.cell)
	}
}

// has reports whether a warning about this one cell was given already.
func (w *warner) has(code, metric string, cell int) bool {
	return slices.ContainsFunc(w.list, func(o bench.Warning) bool {
		return o.Code == code && o.Metric == metric && slices.Equal(o.Cells, []int{cell})
	})
}

// values calls do for each cell's values of each primary metric, in order of
// execution, on the scale on which they are compared.
func (w *warner) values(do func(m *measure, cell int, x, scaled []float64)) {
	for _, m := range w.primary() {
		for _, g := range w.table.groups {
			for _, cell := range g.cells {
				x := numbers(m.column[cell])
				if len(x) < shapeValues || m.result.Metric.Scale == bench.Ratio && !positive(x) {
					continue
				}
				scaled := make([]float64, len(x))
				for i, v := range x {
					scaled[i] = toDistance(v, m.result.Metric.Scale)
				}
				do(m, cell, x, scaled)
			}
		}
	}
}

func (w *warner) bimodal() {
	w.values(func(m *measure, cell int, x, scaled []float64) {
		score, clear := stat.Bimodal(scaled)
		// stat's criterion is for one sample; this is one of many.
		if !clear || score < bimodality*math.Sqrt(12)*(1+3/math.Sqrt(float64(len(x)))) {
			return
		}
		metric := m.result.Metric
		s := unit.Scale(metric.Unit, x...)
		w.add(CodeBimodal, fmt.Sprintf("%s of %s falls into two groups, about %s and %s: the median describes neither",
			metric.Title, w.name(cell), s.Format(stat.Quantile(x, 0.075)), s.Format(stat.Quantile(x, 0.925))),
			"find what differs between the trials: tare export "+w.Header.ID+" writes their counters", metric.Name, cell)
	})
}

// outliers warns of outliers if they are many or extreme. They are never removed.
func (w *warner) outliers() {
	type told struct {
		metric bench.Metric
		parts  []string
		cells  []int
	}
	var all []told
	w.values(func(m *measure, cell int, x, scaled []float64) {
		metric := m.result.Metric
		part := w.farOutliers(metric, cell, x, scaled)
		if part == "" {
			return
		}
		if n := len(all); n == 0 || all[n-1].metric.Name != metric.Name {
			all = append(all, told{metric: metric})
		}
		last := &all[len(all)-1]
		last.parts, last.cells = append(last.parts, part), append(last.cells, cell)
	})
	const most = 4
	for _, t := range all {
		if more := len(t.parts) - most; more > 0 {
			t.parts = append(t.parts[:most], fmt.Sprintf("and trials of %d more cells", more))
		}
		w.add(CodeOutliers, t.metric.Title+": "+strings.Join(t.parts, "; "),
			"they are kept, because estimates and intervals tolerate them; tare doctor shows what disturbs this machine",
			t.metric.Name, t.cells...)
	}
}

// farOutliers says which trials of a cell lie far from the others, or nothing.
func (w *warner) farOutliers(metric bench.Metric, cell int, x, scaled []float64) string {
	centre := stat.Median(x)
	extreme, far := 0, centre
	for _, v := range x {
		if v > farOutlier*centre && centre > 0 {
			extreme, far = extreme+1, max(far, v)
		}
	}
	many := 0
	// Small counts are often equal, so any other value seems far away. And of two
	// groups, each is far from the other.
	if metric.Scale == bench.Ratio && !w.has(CodeBimodal, metric.Name, cell) {
		many = len(stat.Outliers(scaled))
	}
	switch {
	case extreme > 0:
		return fmt.Sprintf("%d of %d trials of %s are more than %g times the median, up to %s",
			extreme, len(x), w.name(cell), farOutlier, unit.Format(far, metric.Unit))
	case float64(many) > outlierShare*float64(len(x)):
		return fmt.Sprintf("%d of %d trials of %s lie far from the others", many, len(x), w.name(cell))
	default:
		return ""
	}
}
