package pairs

import (
	"math"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// A value is the logarithm of one round trip.
type value struct {
	i, j  int // the nodes, i < j
	round int
	cross bool // they are in different zones
	y     float64
}

// A model is what round trips are made of: y = center + node[i] + node[j] + zone if they are in different ones + rest.
type model struct {
	center float64
	node   []float64
	zone   float64
}

func (m *model) rest(v value) float64 {
	rest := v.y - m.center - m.node[v.i] - m.node[v.j]
	if v.cross {
		rest -= m.zone
	}
	return rest
}

// mad is 1.4826 times the median of absolute values: the standard deviation of normal ones around 0.
func mad(x []float64) float64 {
	absolute := make([]float64, len(x))
	for i, v := range x {
		absolute[i] = math.Abs(v)
	}
	return 1.4826 * stat.Median(absolute)
}

// fitRobust makes the absolute rests as small as possible together, so that a link or a trip that is far from the
// others takes no part: least squares with weights that are the inverse of the rests, again and again. To be 0 counts
// as one more value for each node: of four nodes, a slow link would otherwise look the same as four nodes that are all
// odd. So what it says of nodes is too small, and is only good for finding links. It makes the median node 0.
func (m *model) fitRobust(values []value, zones bool) {
	const steps, still = 100, 2e-4
	f := newFit(values, len(m.node), zones)
	rests := make([]float64, len(values))
	for step := range steps {
		for k, v := range values {
			rests[k] = m.rest(v)
		}
		least := max(mad(rests)/2, 1e-6)
		for k, rest := range rests {
			f.weights[k] = 1 / max(math.Abs(rest), least)
			if step == 0 {
				f.weights[k] = 1 / least
			}
		}
		for i, x := range m.node {
			f.atZero[i] = 1 / max(math.Abs(x), least)
		}
		if f.solve(m, 8, still/10) < still && step > 0 {
			break
		}
	}
	m.move(-stat.Median(f.present(m)))
}

// fit is by least squares. What the values do not determine stays as it is.
func (m *model) fit(values []value, zones bool) {
	f := newFit(values, len(m.node), zones)
	for k := range f.weights {
		f.weights[k] = 1
	}
	f.solve(m, 300, 1e-6)
}

// A fit is weighted least squares.
type fit struct {
	values   []value
	weights  []float64 // of each value
	atZero   []float64 // how much it counts that a node is 0
	all      []int     // values
	of       [][]int   // the values of each node
	crossing []int     // the values between zones
}

func newFit(values []value, nodes int, zones bool) *fit {
	f := &fit{
		values: values, weights: make([]float64, len(values)), atZero: make([]float64, nodes), of: make([][]int, nodes),
	}
	for k, v := range values {
		f.all, f.of[v.i], f.of[v.j] = append(f.all, k), append(f.of[v.i], k), append(f.of[v.j], k)
		if zones && v.cross {
			f.crossing = append(f.crossing, k)
		}
	}
	return f
}

// present are the nodes that have values.
func (f *fit) present(m *model) []float64 {
	var nodes []float64
	for i, x := range m.node {
		if len(f.of[i]) > 0 {
			nodes = append(nodes, x)
		}
	}
	return nodes
}

// solve improves one unknown after the other, at most so many times, until none moves further than still. It returns
// how far the first time moved any.
func (f *fit) solve(m *model, times int, still float64) float64 {
	moved, first := 0.0, 0.0
	improve := func(x *float64, its []int, atZero float64) {
		sum, weight := -atZero**x, atZero
		for _, k := range its {
			sum, weight = sum+f.weights[k]*m.rest(f.values[k]), weight+f.weights[k]
		}
		if weight > 0 {
			*x += sum / weight
			moved = max(moved, math.Abs(sum/weight))
		}
	}
	for again := range times {
		moved = 0
		improve(&m.center, f.all, 0)
		for i := range m.node {
			improve(&m.node[i], f.of[i], f.atZero[i])
		}
		improve(&m.zone, f.crossing, 0)
		if again == 0 {
			first = moved
		}
		if moved < still {
			break
		}
	}
	return first
}

// move adds to all nodes, which changes no round trip: nobody can say more than how nodes differ.
func (m *model) move(by float64) {
	for i := range m.node {
		m.node[i] += by
	}
	m.center -= 2 * by
}
