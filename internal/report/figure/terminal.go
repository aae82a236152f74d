package figure

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Write draws the values and changes of every primary metric in characters, in so many columns: a row
// for each cell, in which higher characters stand for more values, and one for each interval.
func Write(w io.Writer, d *report.Document, columns int) error {
	var b strings.Builder
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if !drawn(m) {
			continue
		}
		for k := range m.Conditions {
			writeCondition(&b, m, &m.Conditions[k], max(columns, 40))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCondition draws one metric under one condition.
func writeCondition(b *strings.Builder, m *report.Metric, c *report.Condition, columns int) {
	rows, cells := shownRows(c)
	if len(rows) == 0 {
		return
	}
	name := 8
	for _, r := range rows {
		name = max(name, min(term.Width(label(r)), columns/4))
	}
	room := columns - name - 5
	var values []float64
	var effects []*report.Effect
	for _, r := range rows {
		values = append(values, r.Values...)
		if r.Effect != nil && r.Effect.Estimate != nil {
			effects = append(effects, r.Effect)
		}
	}
	x := valueAxis(values, unitOf(m), 0, float64(room-1), 3)
	b.WriteByte('\n')
	writeFolded(b, columns, "%s, every %s%s", report.Under(m.Title, c.Condition), unitOfValue(rows), axisNote(&x))
	if len(rows) < cells {
		writeFolded(b, columns, "only %d of %s (%s) are drawn; tare show --all lists every cell",
			len(rows), unit.FormatCount(cells, "cell"), differMost)
	}
	for _, r := range rows {
		fmt.Fprintf(b, "  %s  %s\n", padded(label(r), name), strings.TrimRight(strip(&x, room, r.Values), " "))
	}
	fmt.Fprintf(b, "  %s  %s\n", strings.Repeat(" ", name), ruler(&x, room))
	if len(effects) == 0 {
		return
	}
	y := effectsAxis(intervals(effects), unitOf(m))
	y.lo, y.hi = 0, float64(room-1)
	writeFolded(b, columns, "%s against %s, with 95 %% intervals", report.Under(m.Title, c.Condition), plain.Line(c.Baseline))
	for _, r := range rows {
		if r.Effect != nil && r.Effect.Estimate != nil {
			fmt.Fprintf(b, "  %s  %s\n", padded(label(r), name), interval(&y, room, r.Effect))
		}
	}
	fmt.Fprintf(b, "  %s  %s\n", strings.Repeat(" ", name), ruler(&y, room))
}

// intervals are the effects without their single pairs, which would make the axis too long for them.
func intervals(effects []*report.Effect) []*report.Effect {
	out := make([]*report.Effect, len(effects))
	for i, e := range effects {
		short := *e
		short.Changes = nil
		out[i] = &short
	}
	return out
}

// writeFolded writes a heading, which can have names of any length.
func writeFolded(b *strings.Builder, columns int, format string, args ...any) {
	for _, line := range term.WrapBreaking(fmt.Sprintf(format, args...), columns) {
		b.WriteString(line + "\n")
	}
}

func padded(s string, width int) string { return term.Pad(term.Shorten(s, width), width, false) }

// column is where a value is among so many columns.
func column(a *axis, room int, v float64) int {
	return min(max(int(math.Round(a.at(v))), 0), room-1)
}

// strip is how many values there are in each column, as blocks of a height.
func strip(x *axis, room int, values []float64) string {
	counts, most := make([]int, room), 1
	for _, v := range values {
		if !math.IsNaN(v) {
			i := column(x, room, v)
			counts[i]++
			most = max(most, counts[i])
		}
	}
	heights := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range counts {
		h := 0
		if n > 0 {
			h = max(1, n*(len(heights)-1)/most)
		}
		b.WriteRune(heights[h])
	}
	return b.String()
}

// interval draws an estimate, its interval, and where no difference is.
func interval(x *axis, room int, e *report.Effect) string {
	line := []rune(strings.Repeat(" ", room))
	line[column(x, room, nothing(e))] = '│'
	if e.Low != nil && e.High != nil {
		from, to := column(x, room, *e.Low), column(x, room, *e.High)
		for i := from; i <= to; i++ {
			line[i] = '─'
		}
		line[from], line[to] = '├', '┤'
	}
	line[column(x, room, *e.Estimate)] = '●'
	return strings.TrimRight(string(line), " ")
}

// ruler writes the texts of an axis below their places, as far as there is room.
func ruler(x *axis, room int) string {
	line := []rune(strings.Repeat(" ", room))
	end := 0
	for _, t := range x.ticks {
		text := []rune(t.text)
		at := min(max(column(x, room, t.at)-len(text)/2, 0), room-len(text))
		if at < end || at < 0 {
			continue
		}
		copy(line[at:], text)
		end = at + len(text) + 1
	}
	return strings.TrimRight(string(line), " ")
}
