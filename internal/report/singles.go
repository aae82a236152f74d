package report

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// Numbers are values of which some may be missing: NaN in Go, null in JSON.
type Numbers []float64

// MarshalJSON implements json.Marshaler.
func (n Numbers) MarshalJSON() ([]byte, error) {
	if n == nil {
		return []byte("null"), nil
	}
	b := []byte{'['}
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	var all []*float64
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*n = nil
	if all != nil {
		*n = make(Numbers, len(all))
	}
	for i, v := range all {
		(*n)[i] = math.NaN()
		if v != nil {
			(*n)[i] = *v
		}
	}
	return nil
}

// A Spectrum is the percentiles of the single operations of trials under one condition.
type Spectrum struct {
	Metric    string         `json:"metric"`
	Title     string         `json:"title"`
	Condition string         `json:"condition"` // empty where there is none
	Baseline  string         `json:"baseline"`
	Cells     []SpectrumCell `json:"cells"`
}

// A SpectrumCell is the percentiles of one cell.
type SpectrumCell struct {
	Cell   string          `json:"cell"`
	Points []SpectrumPoint `json:"points"` // ascending
}

// A SpectrumPoint is one percentile.
type SpectrumPoint struct {
	P      float64  `json:"p"`      // 0.99 = the 99th percentile
	Trials int      `json:"trials"` // with at least ten operations beyond it
	Median float64  `json:"median"` // over these trials, in seconds
	Low    *float64 `json:"low"`    // of the 95 % interval of the median; null below 6 trials
	High   *float64 `json:"high"`
	// Change is the ratio to the baseline's percentile in the same block. It is a plain
	// interval: nothing is claimed from it. Null for the baseline.
	Change *Interval `json:"change"`
	Values Numbers   `json:"values"` // of the trials, for each of the run's block numbers; null = none
}

// An Interval is an estimate and its plain 95 % interval.
type Interval struct {
	Pairs    int      `json:"pairs"`
	Estimate *float64 `json:"estimate"` // null without pairs
	Low      *float64 `json:"low"`      // null where there is no interval
	High     *float64 `json:"high"`
}

// A Curve is the single operations of trials one after the other, or their seconds, under one condition.
type Curve struct {
	Metric    string      `json:"metric"` // name of the series
	Title     string      `json:"title"`
	Unit      string      `json:"unit"`       // empty where it is not known
	PerSecond bool        `json:"per_second"` // positions are seconds
	Condition string      `json:"condition"`  // empty where there is none
	Length    int         `json:"length"`     // positions of the longest series; of more than 400, cells have some
	Cells     []CurveCell `json:"cells"`
}

// A CurveCell is the curve of one cell.
type CurveCell struct {
	Cell   string  `json:"cell"`
	Trials int     `json:"trials"`
	At     []int   `json:"at"`     // positions of the operations or seconds, from 1
	Median Numbers `json:"median"` // over the trials, parallel to at
	Low    Numbers `json:"low"`    // the quartiles over the trials
	High   Numbers `json:"high"`
	// Values are those of the trials: for each of at, one for each of the run's block numbers; null = none.
	Values []Numbers `json:"values"`
}

func newSpectra(r *analysis.Result) []Spectrum {
	all := []Spectrum{}
	cells := r.Header.Plan.Cells
	for _, s := range r.Spectra {
		out := Spectrum{
			Metric: s.Metric, Title: metricNamed(r.Header, s.Metric).Title, Condition: s.Condition,
			Baseline: cells[s.Baseline].Name,
		}
		for _, c := range s.Cells {
			cell := SpectrumCell{Cell: cells[c.Cell].Name, Points: []SpectrumPoint{}}
			for _, p := range c.Points {
				point := SpectrumPoint{
					P: p.P, Trials: p.Trials, Median: p.Median, Low: number(p.Low), High: number(p.High), Values: p.Values,
				}
				if x := p.Change; x != nil {
					point.Change = &Interval{x.Pairs, number(x.Estimate), number(x.Low), number(x.High)}
				}
				cell.Points = append(cell.Points, point)
			}
			out.Cells = append(out.Cells, cell)
		}
		all = append(all, out)
	}
	return all
}

func newCurves(r *analysis.Result) []Curve {
	all := []Curve{}
	for _, c := range r.Curves {
		name, perSecond := bench.SeriesOf(c.Metric)
		m := metricNamed(r.Header, name)
		out := Curve{
			Metric: c.Metric, Title: m.Title, Unit: m.Unit, PerSecond: perSecond, Condition: c.Condition, Length: c.Length,
		}
		for _, one := range c.Cells {
			cell := CurveCell{
				Cell: r.Header.Plan.Cells[one.Cell].Name, Trials: one.Trials, At: one.At,
				Median: one.Median, Low: one.Low, High: one.High,
			}
			for _, x := range one.Values {
				cell.Values = append(cell.Values, x)
			}
			out.Cells = append(out.Cells, cell)
		}
		all = append(all, out)
	}
	return all
}

// metricNamed finds a metric of the run. A series or a histogram need not be of one.
func metricNamed(h *bench.Header, name string) bench.Metric {
	for _, m := range h.Metrics {
		if m.Name == name {
			return m
		}
	}
	return bench.Metric{Name: name, Title: name}
}
