package figure

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// curveTable has a row for each of some positions.
func curveTable(c *report.Curve) *report.Table {
	const rows = 9
	position, sequence := order(c)
	t := &report.Table{
		Title: report.Under(c.Title, c.Condition) + ", " + sequence, HasHeadings: true,
		Columns: []report.Column{{Name: position}}, Subtitle: "medians over the trials", Groups: []report.RowGroup{{}},
	}
	for _, one := range c.Cells {
		t.Columns = append(t.Columns, report.Column{Name: plain.Line(one.Cell), Right: true})
	}
	at := positions(c)
	switch {
	case c.Length > analysis.MaxCurve:
		t.Subtitle += fmt.Sprintf(", at %d of %s positions; --json has %d, and tare export has all",
			min(rows, len(at)), unit.Format(float64(c.Length), unit.Count), len(at))
	case rows < len(at):
		t.Subtitle += fmt.Sprintf(", at %d of %d positions; --json has all", rows, len(at))
	}
	for k := range min(rows, len(at)) {
		i := k * (len(at) - 1) / max(min(rows, len(at))-1, 1)
		line := report.TableRow{Cells: []string{strconv.Itoa(at[i])}}
		for _, one := range c.Cells {
			text := unit.None
			if k, ok := slices.BinarySearch(one.At, at[i]); ok {
				text = unit.Format(one.Median[k], shorten(plain.Line(c.Unit), 12))
			}
			line.Cells = append(line.Cells, text)
		}
		t.Groups[0].Lines = append(t.Groups[0].Lines, line)
	}
	return t
}

// positions are those of the longest cell.
func positions(c *report.Curve) (at []int) {
	for _, one := range c.Cells {
		if len(one.At) > len(at) {
			at = one.At
		}
	}
	return at
}

// driftTable has, for each cell, where the line begins, is in the middle and ends, and how far it goes.
func driftTable(m *report.Metric, c *report.Condition, all []course) *report.Table {
	t := &report.Table{
		Title: report.Under(m.Title, c.Condition) + ", block by block", HasHeadings: true,
		Subtitle: "medians of five blocks: values of the baseline, changes of the others", Groups: []report.RowGroup{{}},
		Columns: []report.Column{{Name: "cell"}},
	}
	for _, name := range []string{"first", "middle", "last", "lowest", "highest"} {
		t.Columns = append(t.Columns, report.Column{Name: name, Right: true})
	}
	for i := range all {
		line := all[i].medians
		if len(line) == 0 {
			continue
		}
		texts := all[i].texts(line[0], line[len(line)/2], line[len(line)-1], slices.Min(line), slices.Max(line))
		t.Groups[0].Lines = append(t.Groups[0].Lines, report.TableRow{Cells: append([]string{label(all[i].row)}, texts...)})
	}
	if len(t.Groups[0].Lines) == 0 {
		return nil
	}
	return t
}
