// Package pairs says which nodes meet in which slot, and what the round trips between them tell about nodes and links.
package pairs

// A Meeting is one pair of nodes, as indices; the first is the client.
type Meeting struct {
	Client int `json:"client"`
	Server int `json:"server"`
}

// An Input is what was measured between the nodes of a fleet.
type Input struct {
	Nodes []string
	Zones []string // of each node; "" = unknown
	Trips []Trip
	// Smallest is the smallest effect worth knowing, as a ratio.
	// It is 0.1 where it is 0: less than 10 % of a round trip is nobody's fault.
	Smallest float64
}

// A Trip is the median round trip of one pair in one slot, or why there is none. With Bulk, it is how long a MiB took
// instead, in TCP, on average of both directions.
type Trip struct {
	Meeting
	Round   int     `json:"round"`             // from 0
	Slot    int     `json:"slot"`              // within the round, from 0
	Network string  `json:"network"`           // Pod or Host
	Bulk    bool    `json:"bulk,omitempty"`    // it is of throughput, and Slot the number of a wave
	Seconds float64 `json:"seconds,omitempty"` // > 0; 0 = see Lost
	Lost    string  `json:"lost,omitempty"`    // why nothing was measured, such as "12 of 400 requests were lost"
	// Ahead is how much the server's wall clock is ahead of the client's, in seconds. The true value is Ahead ± Within;
	// Within is 0 where it is not known.
	Ahead  float64 `json:"ahead,omitempty"`
	Within float64 `json:"within,omitempty"`
}

// The networks.
const (
	Pod  = "pod"
	Host = "host"
)

// A Verdict says what a node or link is.
type Verdict string

// The verdicts.
const (
	Slow     Verdict = "slow"
	Fast     Verdict = "fast"
	Ordinary Verdict = "ordinary"
	Unclear  Verdict = "unclear"
)

// An Effect is a natural logarithm of a ratio with its 95 % interval. Where there are too few rounds for one, below
// six, it reaches from the least to the greatest that was seen, and nothing is named.
type Effect struct{ Estimate, Low, High float64 }

// A Node is what one end adds to every round trip that it takes part in, against the median node.
type Node struct {
	Effect
	Verdict Verdict
	P       float64 // adjusted for all nodes and links of all networks; 1 = not tested
	Rounds  int     // in which it was measured
	// OrLink is set if three nodes are all there are: that this node is slow looks the same as that this link, between
	// the two others, is fast.
	OrLink *Meeting
}

// A Link is what one pair has beyond its two ends.
type Link struct {
	Meeting // the first is the one with the smaller index: either was the client
	Effect
	Verdict Verdict
	P       float64 // as a node's
	Seconds float64 // the median
	Rounds  int     // in which it was measured
	// OrNode is set if three nodes are all there are: that this link is slow looks the same as that this node, the one
	// that is not of the link, is fast.
	OrNode *int
}

// A Result is what is known of the paths of one network: of round trips, or with Bulk of throughput, as the time of a
// MiB.
type Result struct {
	Network string
	Bulk    bool
	Center  float64 // the median of links, seconds
	Zone    Effect  // what crossing zones adds; 0, 0, 0 = unknown, or all is one zone
	Nodes   []Node
	Links   []Link // those measured, the slowest first
	Losses  []Loss // the worst first
	Silent  []Silence
	// NodeLimit and LinkLimit are how far a node or link may be from the others before it is named, as natural
	// logarithms: the smallest effect worth knowing or, with eight or more of them, what they differ by anyway.
	NodeLimit, LinkLimit float64
	// Apart lists nodes that cannot be judged: too few are in their zone to tell the zone from the node.
	Apart []int
	// Cost is what this network adds to "host", paired within slots; nil if host was not measured.
	Cost *Effect
}
