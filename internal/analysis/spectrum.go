package analysis

import (
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// A Spectrum is the percentiles of the single operations of trials, from the histograms
// that they stored, under one condition. A trial gives one value for each percentile, and
// cells are compared by those of the same block: the difference of quantiles, and never
// quantiles of differences (Rousselet & Wilcox, 2019). Nothing is claimed from it.
type Spectrum struct {
	Metric    string // of the distributions; need not be one of Header.Metrics
	Condition string
	Baseline  int            // index in Plan.Cells
	Cells     []SpectrumCell // in the plan's order, without controls and without cells that have no histogram
}

// A SpectrumCell is the percentiles of one cell.
type SpectrumCell struct {
	Cell   int // index in Plan.Cells
	Trials int // that have a histogram
	Points []SpectrumPoint
}

// A SpectrumPoint is one percentile, over the trials with at least ten operations beyond it.
type SpectrumPoint struct {
	P         float64 // 0.99 = the 99th percentile
	Trials    int
	Median    float64     // in seconds
	Low, High float64     // of the 95 % interval of the median; NaN below 6 trials
	Change    *Comparison // paired with the baseline's; nil for the baseline. Its P is not adjusted, and it has no verdict
	Values    []float64   // those of the trials, parallel to Result.BlockNumbers; NaN = none
}

// spectrumPercentiles are those that are looked at.
func spectrumPercentiles() []float64 {
	return []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999}
}

// beyond is how many operations must lie beyond a percentile for it to be told.
const beyond = 10

// spectra reads the histograms of all trials that count. One that cannot be read is left out:
// it comes from a file.
func (t *table) spectra() (all []Spectrum) {
	for _, name := range t.distributions() {
		columns := t.percentileColumns(name)
		for _, g := range t.groups {
			s := Spectrum{Metric: name, Condition: g.condition, Baseline: g.baseline}
			for _, cell := range g.cells {
				if c := t.spectrumCell(columns, cell, g.baseline); c.Trials > 0 {
					s.Cells = append(s.Cells, c)
				}
			}
			if len(s.Cells) > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// distributions lists the names of metrics that have histograms, in order of appearance.
func (t *table) distributions() (names []string) {
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		if s.Outcome != bench.OK || s.Trial.Warmup() {
			continue
		}
		for _, d := range s.Distributions {
			if !slices.Contains(names, d.Metric) && len(names) < bench.MaxDistributions {
				names = append(names, d.Metric)
			}
		}
	}
	return names
}

// percentileColumns has, for each percentile, a value by cell and block.
func (t *table) percentileColumns(name string) [][][]float64 {
	ps := spectrumPercentiles()
	columns := make([][][]float64, len(ps))
	for p := range columns {
		columns[p] = make([][]float64, len(t.cells))
		for c := range t.cells {
			columns[p][c] = slices.Repeat([]float64{math.NaN()}, len(t.blocks))
		}
	}
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		block, counts := slices.BinarySearch(t.blocks, s.Trial.Block)
		if s.Outcome != bench.OK || s.Trial.Warmup() || !counts {
			continue
		}
		at := slices.IndexFunc(s.Distributions, func(d bench.Distribution) bool { return d.Metric == name })
		if at < 0 {
			continue
		}
		h, err := load.Distribution(s.Distributions[at].HDR).Histogram()
		if err != nil {
			continue
		}
		for p, share := range ps {
			if (1-share)*float64(h.Count()) >= beyond-1e-6 {
				columns[p][s.Trial.Cell][block] = h.Percentile(100 * share)
			}
		}
	}
	return columns
}

// spectrumCell sums up the percentiles of one cell.
func (t *table) spectrumCell(columns [][][]float64, cell, baseline int) SpectrumCell {
	out := SpectrumCell{Cell: cell}
	for p, share := range spectrumPercentiles() {
		x := columns[p][cell]
		point := SpectrumPoint{P: share, Values: x}
		point.Trials, point.Median, point.Low, point.High = location(x)
		if point.Trials == 0 {
			continue
		}
		if cell != baseline {
			point.Change = newEffect(cell, x, columns[p][baseline], bench.Ratio).cmp
		}
		out.Trials = max(out.Trials, point.Trials)
		out.Points = append(out.Points, point)
	}
	return out
}

// A Curve is what the single operations of a trial looked like one after the other, under one
// condition: the n-th container, or the n-th second.
type Curve struct {
	Metric    string // of the series; need not be one of Header.Metrics
	Condition string
	Length    int         // positions up to where at least half of the trials went, of the cell that went furthest
	Cells     []CurveCell // as in Spectrum
}

// A CurveCell is the curve of one cell, over its trials.
type CurveCell struct {
	Cell      int // index in Plan.Cells
	Trials    int
	At        []int     // positions in the series, from 1; at most MaxCurve of them, the same in all cells that go so far
	Median    []float64 // over the trials that went so far, at least half of them; parallel to At
	Low, High []float64 // the quartiles
	// Values are those of the trials: for each of At, parallel to Result.BlockNumbers; NaN = none.
	Values [][]float64
}

// MaxCurve is how many points a Curve has at most.
const MaxCurve = 400

// curves sums up the series of all trials that count.
func (t *table) curves() (all []Curve) {
	series := make(map[string][][][]float64) // by metric, cell and block; nil = none
	var names []string
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		block, counts := slices.BinarySearch(t.blocks, s.Trial.Block)
		if s.Outcome != bench.OK || s.Trial.Warmup() || !counts {
			continue
		}
		for _, one := range s.Series {
			if strings.HasSuffix(one.Metric, slicesSuffix) {
				continue // of turns: Levels has what they say
			}
			if series[one.Metric] == nil {
				names = append(names, one.Metric)
				series[one.Metric] = make([][][]float64, len(t.cells))
				for c := range t.cells {
					series[one.Metric][c] = make([][]float64, len(t.blocks))
				}
			}
			series[one.Metric][s.Trial.Cell][block] = one.Values
		}
	}
	for _, name := range names {
		noZero := t.hasTimesPerSecond(name)
		for _, g := range t.groups {
			c, longest := Curve{Metric: name, Condition: g.condition}, 0
			for _, cell := range g.cells {
				longest = max(longest, reach(series[name][cell]))
			}
			c.Length = longest
			every := (longest + MaxCurve - 1) / MaxCurve
			for _, cell := range g.cells {
				if one := curveOf(cell, series[name][cell], every, noZero); len(one.At) > 1 {
					c.Cells = append(c.Cells, one)
				}
			}
			if len(c.Cells) > 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

// reach is up to where at least half of the trials of a cell went. It takes their series by block; nil is none.
func reach(blocks [][]float64) int {
	var lengths []int
	for _, x := range blocks {
		if x != nil {
			lengths = append(lengths, len(x))
		}
	}
	if len(lengths) == 0 {
		return 0
	}
	slices.Sort(lengths)
	return lengths[(len(lengths)-1)/2]
}

// hasTimesPerSecond reports whether the values of a series are times, one for each second: then 0 is none.
func (t *table) hasTimesPerSecond(series string) bool {
	metric, perSecond := bench.SeriesOf(series)
	return perSecond && slices.ContainsFunc(t.run.Header.Metrics, func(m bench.Metric) bool {
		return m.Name == metric && m.Unit == "s"
	})
}

// curveOf sums up the series of one cell, by block, at every n-th position, and leaves out zeros that are no values.
func curveOf(cell int, blocks [][]float64, every int, noZero bool) CurveCell {
	out := CurveCell{Cell: cell}
	for _, series := range blocks {
		if series != nil {
			out.Trials++
		}
	}
	for i := 0; i < reach(blocks); i += every {
		var x []float64
		each := slices.Repeat([]float64{math.NaN()}, len(blocks))
		for block, series := range blocks {
			if i < len(series) && isUsable(series[i]) && !(noZero && series[i] == 0) {
				x, each[block] = append(x, series[i]), series[i]
			}
		}
		if len(x) == 0 {
			continue
		}
		out.At, out.Values = append(out.At, i+1), append(out.Values, each)
		out.Median = append(out.Median, stat.Median(x))
		out.Low = append(out.Low, stat.Quantile(x, 0.25))
		out.High = append(out.High, stat.Quantile(x, 0.75))
	}
	return out
}
