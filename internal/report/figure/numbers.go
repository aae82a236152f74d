package figure

import (
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// spectrumTable has a row for each percentile and, for each cell, its value and its change.
func spectrumTable(s *report.Spectrum) *report.Table {
	t := &report.Table{
		Title: under(s.Title, s.Condition) + ", percentiles", HasHeadings: true,
		Columns:  []report.Column{{Name: "percentile"}},
		Subtitle: "medians over the trials; plain 95 % intervals of the ratio",
		Groups:   []report.RowGroup{{}},
	}
	byShare := map[float64][]string{}
	var shares []float64
	for n, c := range s.Cells {
		t.Columns = append(t.Columns, report.Column{Name: plain.Line(c.Cell), Right: true})
		for _, p := range c.Points {
			if byShare[p.P] == nil {
				shares = append(shares, p.P)
				byShare[p.P] = make([]string, len(s.Cells))
			}
			byShare[p.P][n] = unit.Format(p.Median, unit.Seconds) + changeText(p.Change)
		}
	}
	for _, p := range shares {
		name := "p" + strconv.FormatFloat(p*100, 'g', 7, 64)
		t.Groups[0].Lines = append(t.Groups[0].Lines, report.TableRow{Cells: append([]string{name}, byShare[p]...)})
	}
	return t
}

// changeText is a ratio with its interval.
func changeText(c *report.Interval) string {
	if c == nil || c.Estimate == nil {
		return ""
	}
	s := ", " + unit.FormatRatio(*c.Estimate)
	if c.Low != nil && c.High != nil {
		all := unit.FormatRatios(*c.Estimate, *c.Low, *c.High)
		s = ", " + all[0] + " [" + all[1] + ", " + all[2] + "]"
	}
	return s
}

// curveTable has a row for each of some positions.
func curveTable(c *report.Curve) *report.Table {
	const rows = 9
	position, sequence := order(c)
	t := &report.Table{
		Title: under(c.Title, c.Condition) + ", " + sequence, HasHeadings: true,
		Columns: []report.Column{{Name: position}}, Subtitle: "medians over the trials", Groups: []report.RowGroup{{}},
	}
	longest := 0
	for n, one := range c.Cells {
		t.Columns = append(t.Columns, report.Column{Name: plain.Line(one.Cell), Right: true})
		if len(one.At) > len(c.Cells[longest].At) {
			longest = n
		}
	}
	at := c.Cells[longest].At
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
