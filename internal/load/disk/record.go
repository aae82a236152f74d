package disk

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tare-bench/tare/internal/load"
)

// minTail is how many values must lie beyond a percentile for it to be reported: of a
// hundred values, the 99.9th percentile would be the largest one, by chance.
const minTail = 10

// Percentiles lists the percentiles that are reported if there are enough values.
func Percentiles() []float64 { return []float64{50, 90, 99, 99.9} }

// Metric returns the name of a pattern's distribution, such as "disk.randread".
func Metric(pattern string) string { return "disk." + pattern }

// PercentileMetric returns the name of a percentile, such as "disk.randread.p99.9".
func PercentileMetric(pattern string, percent float64) string {
	return Metric(pattern) + ".p" + strconv.FormatFloat(percent, 'f', -1, 64)
}

// Record adds the results of a pattern to a report: rate is in requests per second, and
// block the bytes of each request.
func Record(r *load.Report, p Pattern, rate float64, block int, latency *load.Histogram) error {
	n := latency.Count()
	if n < 2*minTail {
		return fmt.Errorf("%d requests completed in time, too few for a median: use a longer time", n)
	}
	switch {
	case p.Sync:
	case p.Random:
		r.Values[Metric(p.Name)+".iops"] = rate
	default:
		r.Values[Metric(p.Name)+".rate"] = rate * float64(block)
	}
	for _, percent := range Percentiles() {
		if n*(1000-int64(math.Round(10*percent)))/1000 >= minTail {
			r.Values[PercentileMetric(p.Name, percent)] = latency.Percentile(percent)
		}
	}
	d, err := latency.Distribution()
	r.Distributions[Metric(p.Name)] = d
	return err
}
