// Package odd says which nodes of a fleet differ from the others, with an error rate for the whole fleet.
package odd

// An Input is what was measured of a fleet.
type Input struct {
	Nodes  []string // names
	Groups []string // of each node: like is compared with like
	// Smallest is the smallest effect worth knowing, as a ratio; 0 = 2 %, or 5 % in a group below eight nodes.
	Smallest float64
	Metrics  []Metric
}

// A Metric is one number that every node has in every round.
type Metric struct {
	Name       string
	MoreIsSlow bool // a larger value is worse, such as a latency
	// Values are natural logarithms by node and round; NaN where a node has no value.
	Values [][]float64
	// Waves are which wave a node was in, by round and node, where not all were measured at once; nil = all at once.
	Waves [][]int
	// Again are the values of the second pass, as Values; nil = there was none, and a node without any was not in it.
	Again [][]float64
}

// A Verdict says what a node is in one metric.
type Verdict string

// The verdicts.
const (
	Slow        Verdict = "slow"         // odd, worse, and confirmed
	Fast        Verdict = "fast"         // odd, better, and confirmed
	Suspect     Verdict = "suspect"      // odd in the first pass, and not measured again yet
	Unconfirmed Verdict = "unconfirmed"  // odd in the first pass, not in the second
	Unsteady    Verdict = "unsteady"     // varies much more from round to round than the others
	Ordinary    Verdict = "ordinary"     // its interval is within the limit
	Unclear     Verdict = "unclear"      // neither
	NotMeasured Verdict = "not measured" // too few rounds
)

// A Finding is what is known of one node in one metric. Effects are natural logarithms of the ratio to the others of
// its group: 0.1 = about 10 % more.
type Finding struct {
	Verdict           Verdict
	Effect, Low, High float64 // the estimate and its 95 % interval
	P                 float64 // of the exact rank test, adjusted for all nodes and metrics
	Noise             float64 // from round to round: 1.4826 times the MAD of the node's effects
	Rounds            int     // that it has
	Needs             int     // rounds until an unclear node would probably be clear; 0 = unknown
}

// A Group is what is known of a group of like nodes in one metric.
type Group struct {
	Name  string
	Nodes int // that have values
	// Limit is how far a node of the group may honestly be from the others: the larger of the smallest effect, and of
	// how far the outermost of so many alike nodes would be in any metric, by the spread.
	Limit  float64
	Spread float64 // 1.4826 times the MAD of the nodes' effects
	Noise  float64 // the median of the nodes' noise
	Center float64 // the median of the group's values, in the metric's unit
	// Modes are set if the group is of two kinds, so that nobody can say which is the odd one: the nodes of each,
	// the kind with smaller values first.
	Modes [2][]int
	// Small says that the group has fewer than eight nodes: no scale between nodes can be told.
	Small bool
}

// A Result is what is known of a fleet: by metric, and then by node or group.
type Result struct {
	Findings [][]Finding
	Groups   [][]Group
}
