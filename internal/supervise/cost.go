package supervise

import (
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// SlicesSuffix is the end of the name of a series: the speed of a load in each slice of a trial that takes turns.
const SlicesSuffix = ".slices"

// MeasuredMetric declares the state bench.StateMeasured.
func MeasuredMetric() bench.Metric {
	return cost(bench.StateMeasured, "time that measured", "s",
		"Time of the trial in which something was measured: what loads do in their slices or in one go, without their "+
			"warm-up, and the operations of containers that are timed.")
}

// TurnsMetric declares the state bench.StateTurns.
func TurnsMetric() bench.Metric {
	return cost(bench.StateTurns, "turns", "1", "Number of turns that the trial had.")
}

// costs are the metrics that RecordCost reports.
func costs() []bench.Metric {
	return []bench.Metric{
		MeasuredMetric(),
		TurnsMetric(),
		cost(bench.StateTurnsTime, "time of its turns", "s",
			"Time from giving a turn to having it back, added up over those turns that lasted for a slice."),
		cost(bench.StateTurnsLost, "time lost at the edges of turns", "s",
			"The part of trial.turns_time in which the load did not measure: the way to the process and back, and what a "+
				"load leaves out at the beginning and at the end of a slice."),
	}
}

// cost declares a state of the trial: no comparison and no reason.
func cost(name, title, unit, doc string) bench.Metric {
	return bench.Metric{
		Name: name, Title: title, Unit: unit, Better: bench.Neither, Role: bench.State, Scale: bench.Difference, Doc: doc,
	}
}

// RecordCost reports what the trial of a load took, as RecordReport does.
func RecordCost(to bench.Recorder, r *load.Report) {
	if r.Measured > 0 {
		to.Record(bench.StateMeasured, r.Measured)
	}
	if c := r.Turns; c.Turns > 0 {
		to.Record(bench.StateTurns, float64(c.Turns))
		to.Record(bench.StateTurnsTime, c.Spent.Seconds())
		to.Record(bench.StateTurnsLost, c.Lost.Seconds())
	}
}
