package stat_test

import (
	"math"
	"math/rand/v2"
)

// What the statistics promise is checked against a truth that is known: how often an
// interval covers it, how often nothing is taken for something, and how often something
// is found.
//
// Noise is a series in time: one disturbance for each trial in the order of
// execution. A value is the effect of the trial's cell plus the disturbance,
// both on the logarithmic scale that ratios are compared on. The unit is the
// standard deviation of the quiet machine, so an effect of 0.5 is one of half
// of it, and a caller that wants percentages multiplies.
//
//	order := RandomBlocks(r, cells, blocks)
//	values := order.Measure(noise.Series(r, len(order)), effects)

// A Noise is what disturbs trials that run one after the other. All of them are
// symmetric about 0.
type Noise struct {
	Name string
	// Independent says that no trial's disturbance tells anything about
	// another's. Statistics of a single cell are right only then.
	Independent bool
	// Series returns the disturbances of n consecutive trials.
	Series func(r *rand.Rand, n int) []float64
}

// All returns every kind of noise, the independent ones first.
func All() []Noise {
	return []Noise{Normal(), T3(), Contaminated(), Drifting(), Autocorrelated()}
}

// Normal is the noise of textbooks.
func Normal() Noise {
	return Noise{"normal", true, independent((*rand.Rand).NormFloat64)}
}

// T3 has the heavy tails of Student's t with 3 degrees of freedom.
func T3() Noise {
	return Noise{"t3", true, independent(func(r *rand.Rand) float64 {
		var square float64
		for range 3 {
			z := r.NormFloat64()
			square += z * z
		}
		return r.NormFloat64() / math.Sqrt(square/3)
	})}
}

// Contaminated is normal, but one trial in twenty has ten times the spread:
// something else ran on the machine.
func Contaminated() Noise {
	return Noise{"contaminated", true, independent(func(r *rand.Rand) float64 {
		if r.Float64() < 0.05 {
			return 10 * r.NormFloat64()
		}
		return r.NormFloat64()
	})}
}

// Drifting is normal about a level that moves by 4 from the first trial of the
// run to the last, up or down: caches fill, the machine warms up.
func Drifting() Noise {
	return Noise{"drifting", false, func(r *rand.Rand, n int) []float64 {
		slope := 4 / float64(max(n-1, 1))
		if r.Uint64()&1 == 0 {
			slope = -slope
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64() + slope*(float64(i)-float64(n-1)/2)
		}
		return x
	}}
}

// Autocorrelated is a first-order autoregression with a coefficient of 0.7:
// a neighbour comes and goes, and trials close in time resemble each other.
// Its standard deviation is 1.
func Autocorrelated() Noise {
	return Noise{"autocorrelated", false, func(r *rand.Rand, n int) []float64 {
		const keep = 0.7
		fresh := math.Sqrt(1 - keep*keep)
		x := make([]float64, n)
		state := r.NormFloat64()
		for i := range x {
			x[i] = state
			state = keep*state + fresh*r.NormFloat64()
		}
		return x
	}}
}

func independent(draw func(*rand.Rand) float64) func(*rand.Rand, int) []float64 {
	return func(r *rand.Rand, n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = draw(r)
		}
		return x
	}
}

// An Order is the cell of each trial, from 0, in the order of execution.
type Order []int

// RandomBlocks runs every cell once in each block, in a fresh random order.
func RandomBlocks(r *rand.Rand, cells, blocks int) Order {
	o := make(Order, 0, cells*blocks)
	for range blocks {
		o = append(o, r.Perm(cells)...)
	}
	return o
}

// OneAfterAnother runs all trials of the first cell, then all of the second,
// and so on: the way that RandomBlocks replaces.
func OneAfterAnother(cells, trials int) Order {
	o := make(Order, 0, cells*trials)
	for cell := range cells {
		for range trials {
			o = append(o, cell)
		}
	}
	return o
}

// Measure returns the values of each cell in the order of their execution,
// which is by block. Effects has one number for each cell, and series one for
// each trial.
func (o Order) Measure(series, effects []float64) [][]float64 {
	values := make([][]float64, len(effects))
	for cell := range values {
		values[cell] = make([]float64, 0, len(o)/len(effects))
	}
	for i, cell := range o {
		values[cell] = append(values[cell], effects[cell]+series[i])
	}
	return values
}

// Differences returns a[i]−b[i], for a and b of the same length.
func Differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}
