package analysis

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// A Level says, for a metric of one cell that took turns, where the differences from its baseline come from.
// The standard deviations are of natural logarithms of one cell's speed: 0.01 is 1 %.
//
// In block b and round r, the speed of cell c is
//
//	ln x(b,r,c) = start(b,c) + round(b,r) + slice(b,r,c)
//
// A start lasts for a block. A round is what disturbs all cells that have a turn in it, so pairs do not contain
// it. What is left is a slice's own. What drifts more slowly than the rounds of one block, in one cell alone,
// counts as its start.
type Level struct {
	Metric         string
	Cell, Baseline int
	Blocks         int
	Rounds         float64 // per block, on average

	Start, Round, Slice float64

	// Pair is the standard deviation of a block's ratio, and StartShare the share of its variance that comes from
	// starts; the rest is from slices. More rounds in a block make only the rest smaller.
	Pair, StartShare float64
}

// slicesSuffix is the end of the name of a series of speeds, as package supervise writes it.
const slicesSuffix = ".slices"

// Levels computes the levels of every cell and metric with speeds of slices in at least two blocks; none without
// turns. The first tenth of a block's rounds is left out: there the loads warm up.
func Levels(r *bench.Run) []Level {
	var all []Level
	for _, name := range slicedMetrics(r) {
		for c := range r.Header.Plan.Cells {
			if base := baselineOf(&r.Header.Plan, c); base >= 0 && base != c {
				if l, ok := levelOf(r, name, c, base); ok {
					all = append(all, l)
				}
			}
		}
	}
	return all
}

// slicedMetrics lists the metrics with speeds of slices, in the order of the run's metrics.
func slicedMetrics(r *bench.Run) []string {
	has := map[string]bool{}
	for _, s := range r.Samples {
		for _, series := range s.Series {
			if name, ok := strings.CutSuffix(series.Metric, slicesSuffix); ok {
				has[name] = true
			}
		}
	}
	var all []string
	for _, m := range r.Header.Metrics {
		if has[m.Name] {
			all = append(all, m.Name)
		}
	}
	return all
}

// baselineOf returns the baseline of a cell's condition; -1 if there is none.
func baselineOf(p *bench.Plan, cell int) int {
	return slices.IndexFunc(p.Cells, func(c bench.Cell) bool {
		return c.Baseline && c.Condition == p.Cells[cell].Condition
	})
}

func levelOf(r *bench.Run, metric string, cell, base int) (Level, bool) {
	mine, theirs := slicesOf(r, metric, cell), slicesOf(r, metric, base)
	l := Level{Metric: metric, Cell: cell, Baseline: base}
	var pairs, covariance, own, noise, rounds []float64
	for _, block := range slices.Sorted(maps.Keys(mine)) {
		x, y := rounded(mine[block], theirs[block])
		if len(x) < 2 {
			continue
		}
		d := make([]float64, len(x))
		for i := range x {
			d[i] = x[i] - y[i]
		}
		both := covarianceOf(x, y)
		pairs, rounds = append(pairs, average(d)), append(rounds, float64(len(x)))
		covariance = append(covariance, both)
		own = append(own, (covarianceOf(x, x)+covarianceOf(y, y))/2-both)
		noise = append(noise, covarianceOf(d, d)/float64(len(d)))
	}
	if l.Blocks = len(pairs); l.Blocks < 2 {
		return l, false
	}
	variance, within := covarianceOf(pairs, pairs), average(noise)
	starts := max(variance-within, 0)
	l.Rounds, l.Pair = average(rounds), math.Sqrt(variance)
	l.Start, l.Round, l.Slice = math.Sqrt(starts/2), root(average(covariance)), root(average(own))
	if variance > 0 {
		l.StartShare = starts / variance
	}
	return l, true
}

// root is the square root; of less than 0, which chance can make of a small variance, it is 0.
func root(variance float64) float64 { return math.Sqrt(max(variance, 0)) }

// slicesOf returns the logarithms of the speeds of a cell, by block.
func slicesOf(r *bench.Run, metric string, cell int) map[int][]float64 {
	all := map[int][]float64{}
	for _, s := range r.Samples {
		if s.Trial.Cell != cell || s.Trial.Warmup() {
			continue
		}
		for _, series := range s.Series {
			if series.Metric == metric+slicesSuffix {
				all[s.Trial.Block] = series.Values
			}
		}
	}
	return all
}

// rounded returns the logarithms of the speeds of two cells in the rounds in which both had a turn, without
// those in which they warmed up.
func rounded(x, y []float64) (lnX, lnY []float64) {
	n := min(len(x), len(y))
	from := n / 10
	if from == 0 && n > 2 {
		from = 1
	}
	for i := from; i < n; i++ {
		if x[i] > 0 && y[i] > 0 {
			lnX, lnY = append(lnX, math.Log(x[i])), append(lnY, math.Log(y[i]))
		}
	}
	return lnX, lnY
}

// covarianceOf is the unbiased covariance of at least two pairs.
func covarianceOf(x, y []float64) (sum float64) {
	meanX, meanY := average(x), average(y)
	for i := range x {
		sum += (x[i] - meanX) * (y[i] - meanY)
	}
	return sum / float64(len(x)-1)
}

func average(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
