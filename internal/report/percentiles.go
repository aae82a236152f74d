package report

import (
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Percentiles are those that any cell has, ascending: 0.99 is the 99th.
func (s *Spectrum) Percentiles() (all []float64) {
	for _, c := range s.Cells {
		for _, p := range c.Points {
			all = append(all, p.P)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// PercentileName is "p99" for 0.99.
func PercentileName(p float64) string { return "p" + strconv.FormatFloat(p*100, 'g', 7, 64) }

// Table has a row for each percentile and, for each cell, its value and its change.
func (s *Spectrum) Table() *Table {
	t := &Table{
		Title: Under(s.Title, s.Condition) + ", percentiles", HasHeadings: true,
		Columns:  []Column{{Name: "percentile"}},
		Subtitle: "medians over the trials [95 % intervals]; ratios to " + plain.Line(s.Baseline) + " [plain 95 % intervals]",
		Groups:   []RowGroup{{}},
	}
	shares := s.Percentiles()
	lines := make([]TableRow, len(shares))
	for i, p := range shares {
		lines[i].Cells = append(make([]string, 0, 1+len(s.Cells)), PercentileName(p))
	}
	for n, c := range s.Cells {
		t.Columns = append(t.Columns, Column{Name: plain.Line(c.Cell), Right: true})
		for i := range lines {
			lines[i].Cells = append(lines[i].Cells, "")
		}
		for _, p := range c.Points {
			i, _ := slices.BinarySearch(shares, p.P)
			text := p.text()
			if change := p.Change.Text(); change != "" {
				text += ", " + change
			}
			lines[i].Cells[n+1] = text
		}
	}
	t.Groups[0].Lines = lines
	return t
}

// text is a median with its interval.
func (p *SpectrumPoint) text() string {
	if p.Low == nil || p.High == nil {
		return unit.Format(p.Median, unit.Seconds)
	}
	s := unit.Scale(unit.Seconds, p.Median)
	return s.Format(p.Median) + " [" + s.Number(*p.Low) + ", " + s.Number(*p.High) + "]"
}

// Text is the change of a percentile, a ratio, with its interval; empty where there is none.
func (c *Interval) Text() string {
	if c == nil || c.Estimate == nil {
		return ""
	}
	if c.Low == nil || c.High == nil {
		return unit.FormatRatio(*c.Estimate)
	}
	all := unit.FormatRatios(*c.Estimate, *c.Low, *c.High)
	return all[0] + " [" + all[1] + ", " + all[2] + "]"
}
