package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

const levelsHeight = 250

// levels shows how a metric goes with a condition that has an order, such as the number of
// clients: a panel for each combination of the other conditions, a line for each cell.
func levels(m *report.Metric) []Figure {
	key, ok := orderedCondition(m)
	if !ok {
		return nil
	}
	f := Figure{
		Name: named(m.Name, "by", key), Kind: Levels, Metric: m.Name, Title: under(m.Title, "") + " by " + plain.Line(key),
		Finding: under(m.Title, "") + " by " + plain.Line(key) + ": medians, with their 95 % intervals.",
	}
	for _, others := range otherLevels(m, key) {
		if p, ok := levelsPanel(m, key, others); ok {
			f.Panels = append(f.Panels, p)
		}
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return []Figure{f}
}

// orderedCondition is the condition with the most numbers as levels, at least three.
func orderedCondition(m *report.Metric) (key string, ok bool) {
	counts, names := map[string]map[float64]bool{}, []string{}
	for _, c := range m.Conditions {
		for _, l := range c.Levels {
			v, isNumber := levelNumber(l.Value)
			if counts[l.Key] == nil {
				counts[l.Key] = map[float64]bool{}
				names = append(names, l.Key)
			}
			if !isNumber {
				counts[l.Key][math.NaN()] = true // each NaN is a key of its own, so this is never empty
			}
			counts[l.Key][v] = true
		}
	}
	most := 2
	for _, n := range names {
		if len(counts[n]) > most && allNumbers(counts[n]) {
			key, most = n, len(counts[n])
		}
	}
	return key, key != ""
}

func allNumbers(values map[float64]bool) bool {
	for v := range values {
		if math.IsNaN(v) {
			return false
		}
	}
	return true
}

// levelNumber reads a level as a number, a size or a time.
func levelNumber(s string) (float64, bool) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, true
	}
	if v, err := unit.ParseBytes(s); err == nil {
		return float64(v), true
	}
	if v, err := unit.ParseDuration(s); err == nil {
		return v.Seconds(), true
	}
	return math.NaN(), false
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

func without(levels []bench.Label, key string) string {
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

// levelsPanel draws one combination.
func levelsPanel(m *report.Metric, key, others string) (Panel, bool) {
	series, names := map[string][]levelPoint{}, []string{}
	var xs, ys []float64
	for i := range m.Conditions {
		c := &m.Conditions[i]
		if without(c.Levels, key) != others {
			continue
		}
		k := slices.IndexFunc(c.Levels, func(l bench.Label) bool { return l.Key == key })
		if k < 0 {
			continue
		}
		v, _ := levelNumber(c.Levels[k].Value)
		for j := range c.Rows {
			r := &c.Rows[j]
			if r.Median == nil {
				continue
			}
			if series[r.Cell] == nil {
				names = append(names, r.Cell)
			}
			series[r.Cell] = append(series[r.Cell], levelPoint{v, c.Levels[k].Value, r})
			xs, ys = append(xs, v), append(ys, *r.Median)
			for _, end := range []*float64{r.Low, r.High} {
				if end != nil {
					ys = append(ys, *end)
				}
			}
		}
	}
	if len(names) == 0 || len(names) > len(lineColors) {
		return Panel{}, false
	}
	x, y := levelAxis(xs, series), valueAxis(ys, unitOf(m), levelsHeight-40, 26, 4)
	var b canvas
	title := shorten(strings.Trim(plain.Line(others), " "), 48)
	b.text(margin, 14, left, words, normal, title)
	b.vertical(&y, leftSpace, width-margin)
	b.horizontal(&x, 26, levelsHeight-40)
	b.text(width-margin, levelsHeight-14, right, muted, small, plain.Line(key))
	for n, name := range names {
		b.levelLine(&x, &y, n, name, series[name])
	}
	return Panel{
		Title: under(m.Title, others) + " by " + plain.Line(key), Finding: "One line for each cell.",
		Width: width, Height: levelsHeight, body: b.String(),
	}, true
}

// levelAxis is logarithmic where levels double.
func levelAxis(xs []float64, series map[string][]levelPoint) axis {
	low, high, _ := extent(xs)
	a := axis{from: low, to: high, lo: leftSpace + 14, hi: width - 60, log: low > 0 && high/low >= 4}
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
	slices.SortFunc(a.ticks, func(p, q tick) int { return compare(p.at, q.at) })
	return a
}

// levelLine draws one cell, with its name at the end.
func (c *canvas) levelLine(x, y *axis, n int, name string, points []levelPoint) {
	slices.SortFunc(points, func(p, q levelPoint) int { return compare(p.at, q.at) })
	var line []point
	for _, p := range points {
		at := point{x.at(p.at), y.at(*p.row.Median)}
		line = append(line, at)
		if p.row.Low != nil && p.row.High != nil {
			c.line(at.x, y.at(*p.row.Low), at.x, y.at(*p.row.High), lineInk(n), 1.5)
		}
		c.dot(at.x, at.y, 3, lineInk(n))
	}
	c.polyline(line, lineInk(n), 1.8, dashes(n))
	end := line[len(line)-1]
	c.text(end.x+5, end.y+4, left, lineInk(n), small, shorten(plain.Line(name), 9))
}

// number writes a count.
func number(n int) string { return strconv.Itoa(n) }
