package bench

import "slices"

// A Direction says which way a metric is better.
type Direction string

// The directions of a metric.
const (
	Lower   Direction = "lower"   // less is better, such as a duration
	Higher  Direction = "higher"  // more is better, such as a rate
	Neither Direction = "neither" // a difference is neither better nor worse
)

// A Role says what the analysis does with a metric.
type Role string

// The roles of a metric.
const (
	// Primary metrics decide: they form the family whose verdicts are adjusted
	// together, and the run's precision is judged by them.
	Primary Role = "primary"
	// Detail metrics explain the primary ones, such as the phases of a total.
	// They have intervals and verdicts too, adjusted as a family of their own.
	Detail Role = "detail"
	// Counter metrics are what the kernel counted during a trial. Reports offer
	// them as reasons: a correlation, not a proof.
	Counter Role = "counter"
	// State metrics describe the host when the trial began.
	State Role = "state"
)

// A Scale says how two values of a metric are compared.
type Scale string

// The scales of comparison.
const (
	// Ratio compares logarithms: for values that are always above zero.
	Ratio Scale = "ratio"
	// Difference subtracts: for values that can be zero, such as errors.
	Difference Scale = "difference"
)

// A Metric is a named quantity. A workload declares its metrics before any trial
// runs, so that the analysis is fixed before there are results.
type Metric struct {
	Name   string    `json:"name"`  // unique in a run, lower case, such as "first_instruction"
	Title  string    `json:"title"` // what people read, such as "time to first instruction"
	Unit   string    `json:"unit"`  // base unit: "s", "B", "1", "1/s", "B/s"; never "ms" or "MiB"
	Better Direction `json:"better"`
	Role   Role      `json:"role"`
	Scale  Scale     `json:"scale"`
	Doc    string    `json:"doc"` // one sentence with its full stop: from which event to which event
	// StretchOf is the metric of which this is the value in one uninterrupted stretch of a trial
	// that otherwise takes turns; empty for all others.
	StretchOf string `json:"stretch_of,omitempty"`
}

// WithStretches adds a detail for each of the named metrics: its value in one uninterrupted stretch.
func WithStretches(all []Metric, names ...string) []Metric {
	for _, m := range slices.Clone(all) {
		if !slices.Contains(names, m.Name) {
			continue
		}
		m.StretchOf, m.Role = m.Name, Detail
		m.Name, m.Title = m.Name+StretchSuffix, m.Title+", uninterrupted"
		m.Doc = "Like " + m.StretchOf + ", in one uninterrupted stretch of a trial that otherwise takes turns."
		all = append(all, m)
	}
	return all
}

// StretchSuffix is the end of the name of a metric with a StretchOf.
const StretchSuffix = ".stretch"
