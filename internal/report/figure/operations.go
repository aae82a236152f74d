package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

const operationsHeight = 270

// spectra shows the percentiles of single operations: a line for each cell, on an axis on which
// each nine has the same room.
func spectra(d *report.Document) (all []Figure) {
	for i := range d.Spectra {
		s := fewCells(d.Spectra[i])
		if len(s.Cells) == 0 {
			continue
		}
		f := Figure{
			Name: named(s.Metric, s.Condition, "percentiles"), Kind: Percentiles, Numbers: s.Table(),
			Title: report.Under(s.Title, s.Condition) + ", percentiles", Finding: spectrumFinding(d, s),
			Reading: "Each point is the median, over the trials, of one percentile of the trial's single operations, with " +
				"its 95 % interval. A percentile is shown if at least ten operations of a trial lie beyond it.",
			Thinned: leftOut(len(s.Cells), len(d.Spectra[i].Cells), differMost, false),
		}
		f.Panels = append(f.Panels, spectrumPanel(s, f.Finding))
		if p, ok := spectrumChanges(s, f.Finding); ok {
			f.Panels = append(f.Panels, p)
		}
		all = append(all, f)
	}
	return all
}

// nines is a share on the axis of percentiles: 0.9 is 1, 0.99 is 2.
func nines(p float64) float64 { return -math.Log10(1 - p) }

// ninesAxis goes to the last percentile that there is, with room for cells beside one another.
func ninesAxis(s *report.Spectrum, right float64) axis {
	shown := s.Percentiles()
	last := 0.9
	for _, p := range shown {
		last = max(last, p)
	}
	a := axis{from: nines(0.5), to: nines(last), lo: leftSpace + 14, hi: right - 8}
	for _, p := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		if slices.Contains(shown, p) {
			a.ticks = append(a.ticks, tick{nines(p), report.PercentileName(p)})
		}
	}
	return a
}

func spectrumPanel(s *report.Spectrum, finding string) Panel {
	var ys []float64
	for _, c := range s.Cells {
		for _, p := range c.Points {
			ys = append(ys, known(&p.Median, p.Low, p.High)...)
		}
	}
	cells := spectrumNames(s.Cells)
	x, y := ninesAxis(s, cells.right()), valueAxis(ys, unit.Seconds, operationsHeight-34, 26, 4)
	var b canvas
	b.text(margin, 14, left, words, normal, "single operations"+axisNote(&y))
	b.vertical(&y, leftSpace, cells.right())
	b.horizontal(&x, 26, operationsHeight-34)
	ends := make([]point, len(cells))
	for n, c := range s.Cells {
		var line []point
		for _, p := range c.Points {
			line = append(line, b.value(x.at(nines(p.P))+beside(n, len(cells)), &y, p.Median, p.Low, p.High, n))
		}
		b.polyline(line, lineInk(n), 1.2, dashes(n))
		ends[n] = last(line)
	}
	cells.write(&b, ends, operationsHeight-10)
	return Panel{
		Title:   report.Under(s.Title, s.Condition) + ": percentiles of single operations, with their 95 % intervals",
		Finding: finding, Width: width, Height: operationsHeight + cells.height(), body: b.String(),
	}
}

func spectrumNames(cells []report.SpectrumCell) (all names) {
	for _, c := range cells {
		all = append(all, c.Cell)
	}
	return all
}

// last is the end of a line, or the origin without one.
func last(line []point) point {
	if len(line) == 0 {
		return point{}
	}
	return line[len(line)-1]
}

// spectrumChanges shows, for each percentile, the ratio to the baseline with its interval.
func spectrumChanges(s *report.Spectrum, finding string) (Panel, bool) {
	var ys []float64
	for _, c := range s.Cells {
		for _, p := range c.Points {
			if p.Change != nil {
				ys = append(ys, known(p.Change.Estimate, p.Change.Low, p.Change.High)...)
			}
		}
	}
	if len(ys) == 0 {
		return Panel{}, false
	}
	cells := spectrumNames(s.Cells)
	x, y := ninesAxis(s, cells.right()), changeAxis(ys, operationsHeight-34, 26)
	var b canvas
	b.text(margin, 14, left, words, normal, "against "+shorten(plain.Line(s.Baseline), 20)+", plain 95 % intervals")
	b.vertical(&y, leftSpace, cells.right())
	b.horizontal(&x, 26, operationsHeight-34)
	b.line(leftSpace, y.at(1), cells.right(), y.at(1), none, 1)
	ends := make([]point, len(cells))
	for n, c := range s.Cells {
		var line []point
		for _, p := range c.Points {
			if p.Change == nil || p.Change.Estimate == nil {
				continue
			}
			at := x.at(nines(p.P)) + beside(n, len(cells))
			line = append(line, b.value(at, &y, *p.Change.Estimate, p.Change.Low, p.Change.High, n))
		}
		b.polyline(line, lineInk(n), 1.2, dashes(n))
		ends[n] = last(line)
	}
	cells.write(&b, ends, operationsHeight-10)
	return Panel{
		Title:   report.Under(s.Title, s.Condition) + ": percentiles against the baseline",
		Finding: finding, Width: width, Height: operationsHeight + cells.height(), body: b.String(),
	}, true
}

// order says what the positions of a curve are, and in what order its points come.
func order(c *report.Curve) (position, sequence string) {
	if c.PerSecond {
		return "second", "second by second"
	}
	return "position", "one after the other"
}

// curves shows single operations one after the other, the n-th container, or single seconds.
func curves(d *report.Document) (all []Figure) {
	for _, c := range d.Curves {
		cells := len(c.Cells)
		if cells == 0 {
			continue
		}
		c.Cells = c.Cells[:min(cells, len(lineColors))]
		_, sequence := order(&c)
		f := Figure{
			Name: named(c.Metric, c.Condition, "curve"), Kind: Sequence, Numbers: curveTable(&c),
			Title: report.Under(c.Title, c.Condition) + ", " + sequence, Finding: curveFinding(&c),
			Reading: "The line is the median over the trials, the band between its quartiles; no difference is claimed.",
			Thinned: strings.TrimSpace(leftOut(len(c.Cells), cells, firstOnes, false) + " " + skipped(&c)),
		}
		checkpoints := checkpointsOf(d, &c)
		if checkpoints != nil {
			f.Reading += checkpointReading
		}
		f.Panels = []Panel{curvePanel(&c, checkpoints, f.Finding)}
		all = append(all, f)
	}
	return all
}

// curvePanel shows a curve, and marks checkpoints if they are not nil.
func curvePanel(c, checkpoints *report.Curve, finding string) Panel {
	position, sequence := order(c)
	var ys []float64
	var cells names
	end := 2
	for _, one := range c.Cells {
		ys, cells = append(append(ys, one.Low...), one.High...), append(cells, one.Cell)
		end = max(end, one.At[len(one.At)-1])
	}
	y := valueAxis(ys, shorten(plain.Line(c.Unit), 12), operationsHeight-34, 26, 4)
	x := axis{from: 1, to: float64(end), lo: leftSpace, hi: cells.right()}
	for _, v := range linearTicks(1, float64(end), 5) {
		x.ticks = append(x.ticks, tick{v, strconv.FormatFloat(v, 'f', -1, 64)})
	}
	var b canvas
	b.text(margin, 14, left, words, normal, shorten(plain.Line(c.Title), 30)+" by "+position+axisNote(&y))
	b.vertical(&y, leftSpace, cells.right())
	b.horizontal(&x, 26, operationsHeight-34)
	ends := make([]point, len(cells))
	for n, one := range c.Cells {
		var line, low, high []point
		for i, at := range one.At {
			px := x.at(float64(at))
			line = append(line, point{px, y.at(one.Median[i])})
			low, high = append(low, point{px, y.at(one.Low[i])}), append(high, point{px, y.at(one.High[i])})
		}
		b.band(high, low, lineInk(n))
		b.polyline(line, lineInk(n), 1.8, dashes(n))
		ends[n] = last(line)
	}
	if checkpoints != nil {
		markCheckpoints(&b, &x, operationsHeight-34, checkpoints, c.Cells)
	}
	cells.write(&b, ends, operationsHeight-10)
	return Panel{
		Title: report.Under(c.Title, c.Condition) + ", " + sequence, Finding: finding,
		Width: width, Height: operationsHeight + cells.height(), body: b.String(),
	}
}
