package disk

import (
	"fmt"
	"strconv"

	"github.com/tare-bench/tare/internal/load"
)

// beyond is how many values must lie beyond a percentile that is told: of a
// hundred values the 99.9th percentile would be the largest, and chance.
const beyond = 10

// Percentiles lists those that are told where there are values enough.
func Percentiles() []float64 { return []float64{50, 90, 99, 99.9} }

// Metric returns the name under which a pattern is reported: its distribution
// under "disk.randread", its percentiles under "disk.randread.p99.9".
func Metric(pattern string, percent ...float64) string {
	name := "disk." + pattern
	for _, p := range percent {
		name += ".p" + strconv.FormatFloat(p, 'f', -1, 64)
	}
	return name
}

// Record adds what was found out about a pattern to a report: how many requests
// there were in a second, each of so many bytes, and what each took.
func Record(r *load.Report, name string, rate float64, block int, latency *load.Histogram) error {
	n := latency.Count()
	if n < 2*beyond {
		return fmt.Errorf("%d requests completed in time, too few for a median: want more time", n)
	}
	switch p, _ := patternNamed(name); {
	case p.sync:
	case p.random:
		r.Values[Metric(name)+".iops"] = rate
	default:
		r.Values[Metric(name)+".rate"] = rate * float64(block)
	}
	for _, p := range Percentiles() {
		if float64(n)*(100-p)/100 >= beyond {
			r.Values[Metric(name, p)] = latency.Percentile(p)
		}
	}
	d, err := latency.Distribution()
	r.Distributions[Metric(name)] = d
	return err
}
