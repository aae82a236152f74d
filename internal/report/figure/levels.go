package figure

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

const levelsHeight = 250

// levels shows how a metric goes with a condition that has an order, such as the number of
// clients: a panel for each combination of the other conditions, a line for each cell.
func levels(m *report.Metric) []Figure {
	key, ok := orderedCondition(m)
	if !ok {
		return nil
	}
	title := plain.Line(m.Title) + " by " + plain.Line(key)
	f := Figure{
		Name: named(m.Name, "by", key), Kind: Levels, Metric: m.Name, Title: title,
		Finding: levelsFinding(title, m.Conditions),
		Reading: "Points are medians, with their 95 % intervals.",
	}
	for _, others := range otherLevels(m, key) {
		p, cells := levelsPanel(m, key, others)
		if cells == 0 {
			continue
		}
		f.Panels = append(f.Panels, p)
		f.Thinned = cmp.Or(f.Thinned, leftOut(min(cells, len(lineColors)), cells, differMost, false))
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return []Figure{f}
}

// orderedCondition is the condition with the most numbers as levels, at least three.
func orderedCondition(m *report.Metric) (key string, ok bool) {
	counts, words, names := map[string]map[float64]bool{}, map[string]bool{}, []string{}
	for _, c := range m.Conditions {
		for _, l := range c.Levels {
			if counts[l.Key] == nil {
				counts[l.Key] = map[float64]bool{}
				names = append(names, l.Key)
			}
			if l.Number == nil {
				words[l.Key] = true
				continue
			}
			counts[l.Key][*l.Number] = true
		}
	}
	most := 2
	for _, n := range names {
		if len(counts[n]) > most && !words[n] {
			key, most = n, len(counts[n])
		}
	}
	return key, key != ""
}

// otherLevels lists the combinations of the other conditions, in order.
func otherLevels(m *report.Metric, key string) (all []string) {
	for _, c := range m.Conditions {
		if s := without(c.Levels, key); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func without(levels []report.ConditionLevel, key string) string {
	var parts []string
	for _, l := range levels {
		if l.Key != key {
			parts = append(parts, l.Key+"="+l.Value)
		}
	}
	return strings.Join(parts, ", ")
}

// A levelPoint is one cell at one level.
type levelPoint struct {
	at   float64
	text string // the level
	row  *report.Row
}

// conditionsOf are the conditions with one combination of other levels, in order.
func conditionsOf(m *report.Metric, key, others string) (all []report.Condition) {
	for _, c := range m.Conditions {
		if levelOf(&c, key) >= 0 && without(c.Levels, key) == others {
			all = append(all, c)
		}
	}
	return all
}

// levelOf is the index of a condition's level; -1 where it has none.
func levelOf(c *report.Condition, key string) int {
	return slices.IndexFunc(c.Levels, func(l report.ConditionLevel) bool { return l.Key == key })
}

// levelSeries collects the points of each cell.
func levelSeries(all []report.Condition, key string) (series map[string][]levelPoint, cells names) {
	series = map[string][]levelPoint{}
	for i := range all {
		level := all[i].Levels[levelOf(&all[i], key)]
		for j := range all[i].Rows {
			r := &all[i].Rows[j]
			if r.Median == nil {
				continue
			}
			if series[r.Cell] == nil {
				cells = append(cells, r.Cell)
			}
			series[r.Cell] = append(series[r.Cell], levelPoint{*level.Number, level.Value, r})
		}
	}
	return series, cells
}

// farthest is how far a cell is from the baseline at most.
func farthest(points []levelPoint) (size float64) {
	for _, p := range points {
		size = max(size, p.row.Distance())
	}
	return size
}

// valuesOf are the medians of a metric and the ends of their intervals: all panels have one axis.
func valuesOf(m *report.Metric) (ys []float64) {
	for _, c := range m.Conditions {
		for _, r := range c.Rows {
			ys = append(ys, known(r.Median, r.Low, r.High)...)
		}
	}
	return ys
}

// levelsPanel draws one combination, and says how many cells it has.
func levelsPanel(m *report.Metric, key, others string) (Panel, int) {
	all := conditionsOf(m, key, others)
	series, cells := levelSeries(all, key)
	if len(cells) == 0 {
		return Panel{}, 0
	}
	count := len(cells)
	cells = report.Farthest(cells, len(lineColors), func(name string) float64 { return farthest(series[name]) })
	x, y := levelAxis(series, cells.right()-8), valueAxis(valuesOf(m), unitOf(m), levelsHeight-40, 26, 4)
	var b canvas
	title := cmp.Or(plain.Line(others), plain.Line(m.Title))
	if y.log {
		title = shorten(title, 32) + " · logarithmic values"
	}
	b.text(margin, 14, left, words, normal, shorten(title, 54))
	b.vertical(&y, leftSpace, cells.right())
	b.horizontal(&x, 26, levelsHeight-40)
	b.text(cells.right(), levelsHeight-14, right, muted, small, shorten(plain.Line(key), 40)+axisNote(&x))
	ends := make([]point, len(cells))
	for n, name := range cells {
		ends[n] = b.levelLine(&x, &y, n, series[name])
	}
	cells.write(&b, ends, levelsHeight-8)
	return Panel{
		Title:   report.Under(m.Title, others) + " by " + plain.Line(key),
		Finding: levelsFinding(report.Under(m.Title, others)+" by "+plain.Line(key), all),
		Width:   width, Height: levelsHeight + cells.height(), body: b.String(),
	}, count
}

// levelAxis is logarithmic where levels double.
func levelAxis(series map[string][]levelPoint, right float64) axis {
	var xs []float64
	for _, points := range series {
		for _, p := range points {
			xs = append(xs, p.at)
		}
	}
	low, high, _ := extent(xs)
	a := axis{from: low, to: high, lo: leftSpace + 14, hi: right, log: low > 0 && high/low >= 4}
	if low == high {
		a.to = low + 1
	}
	seen := map[float64]bool{}
	for _, points := range series {
		for _, p := range points {
			if !seen[p.at] {
				seen[p.at] = true
				a.ticks = append(a.ticks, tick{p.at, shorten(plain.Line(p.text), 8)})
			}
		}
	}
	slices.SortFunc(a.ticks, func(p, q tick) int { return cmp.Compare(p.at, q.at) })
	return a
}

// levelLine draws one cell, and says where its line ends.
func (c *canvas) levelLine(x, y *axis, n int, points []levelPoint) point {
	slices.SortFunc(points, func(p, q levelPoint) int { return cmp.Compare(p.at, q.at) })
	var line []point
	for _, p := range points {
		line = append(line, c.value(x.at(p.at), y, *p.row.Median, p.row.Low, p.row.High, n))
	}
	c.polyline(line, lineInk(n), 1.8, dashes(n))
	return last(line)
}
