package pairs

import (
	"math"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// cost is what the pod network adds to that of the host, in round trips or in bulk: by slot, and then by pair. Three
// nodes have too few pairs for an interval; theirs is over rounds.
func cost(in Input, bulk bool) *Effect {
	type key struct {
		Meeting
		round, slot int
	}
	hosts := make(map[key]float64)
	for _, t := range in.Trips {
		if t.kind() == (kind{Host, bulk}) && in.usable(t) {
			hosts[key{t.Meeting, t.Round, t.Slot}] = math.Log(t.Seconds)
		}
	}
	pairs, rounds := make(map[Meeting][]float64), make(map[int][]float64)
	for _, t := range in.Trips {
		host, ok := hosts[key{t.Meeting, t.Round, t.Slot}]
		if ok && t.kind() == (kind{Pod, bulk}) && in.usable(t) {
			d := math.Log(t.Seconds) - host
			pairs[either(t.Meeting)] = append(pairs[either(t.Meeting)], d)
			rounds[t.Round] = append(rounds[t.Round], d)
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	var e Effect
	if len(pairs) >= Enough {
		e = effect(medians(pairs))
	} else {
		e = effect(medians(rounds))
	}
	return &e
}

func medians[K comparable](of map[K][]float64) []float64 {
	x := make([]float64, 0, len(of))
	for _, y := range of {
		x = append(x, stat.Median(y))
	}
	return x
}
