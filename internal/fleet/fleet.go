// Package fleet says what a fleet is: one experiment on every node of a cluster, in rounds that begin at
// the same times. It is plain data; the cluster is reached by fleet/cluster, the nodes are judged by fleet/odd
// and the paths between them by fleet/pairs.
package fleet

import (
	"time"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// Format is the version of the stored form of a Fleet.
const Format = 1

// The labels of a node's run, by which it is known to belong to a fleet.
const (
	LabelFleet = "fleet" // the fleet's ID
	LabelNode  = "node"  // the node's name
	LabelPass  = "pass"  // "1", or "2" for the rounds that confirm
)

// A Fleet is what was planned, and what is known of each node. It is kept in the cluster until all is gathered,
// and in the store.
type Fleet struct {
	Format int       `json:"format"` // see Format
	ID     string    `json:"id"`     // like that of a run; the runs of its nodes begin with it
	Tool   string    `json:"tool"`   // the version of tare that planned it
	Began  time.Time `json:"began"`  // by the client's clock, UTC
	// Cluster is the address of the API server, without credentials.
	Cluster string `json:"cluster"`
	// Namespaces hold the objects: the first has the root; more than one only above 2,500 nodes.
	Namespaces []string `json:"namespaces"`
	Image      string   `json:"image"` // what the pods run
	// Experiment is its name as people know it, and Source the file that the pods are given.
	Experiment string `json:"experiment"`
	Source     string `json:"source"`
	// Seed decides which nodes meet in which slot, who is in which wave and who confirms; each node's own plan has
	// the same seed.
	Seed   uint64        `json:"seed,string"`
	Rounds int           `json:"rounds"`   // of the first pass; ≥ 1
	Round  time.Duration `json:"round_ns"` // from the beginning of a round to the next, in the first pass
	// Slots is the part of such a round in which nodes meet. The rounds of the second pass do not have it.
	Slots time.Duration `json:"slots_ns,omitempty"`
	// Confirm is how many rounds the second pass has, in which suspects are measured again; 0 = there is none.
	Confirm int `json:"confirm,omitempty"`
	// Smallest is the smallest effect worth knowing, as a ratio: 0.02 = 2 %; 0 = as fleet/odd has it.
	Smallest float64 `json:"smallest,omitempty"`
	// Networks are what round trips are measured over: "pod", "host". Empty = none are measured.
	Networks []string `json:"networks,omitempty"`
	// Throughput says that it is measured too, over the same networks.
	Throughput bool `json:"throughput,omitempty"`
	// Host says that the node itself is measured, and its containers, from a privileged pod.
	Host    bool       `json:"host,omitempty"`
	GroupBy []string   `json:"group_by,omitempty"` // the labels of nodes, and "arch", that make groups
	Nodes   []Node     `json:"nodes"`              // in the order of their names
	LeftOut []Omission `json:"left_out,omitempty"` // nodes that are not measured
	// Starts are when the first round of each pass began, by the cluster's clocks, UTC: index 0 is pass 1.
	Starts []time.Time `json:"starts,omitempty"`
	// Ahead is how far clocks of nodes were ahead of the cluster's when each pass began, by the names of the nodes: index
	// 0 is pass 1. Their rounds began by so much later on their clocks, and with those of the others.
	Ahead []map[string]time.Duration `json:"clocks_ahead_ns,omitempty"`
	// Outcomes are how the nodes' runs ended, as far as it is known; one for each node and pass at most.
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Trips are the round trips between nodes, by index in Nodes. They are only in the store.
	Trips []pairs.Trip `json:"trips,omitempty"`
}

// A Node is one machine of the cluster, as the API server describes it. All texts are foreign.
type Node struct {
	Name         string `json:"name"`
	Group        string `json:"group,omitempty"` // like is compared with like; "" = the only group
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instance_type,omitempty"`
	Arch         string `json:"arch,omitempty"`
	Kernel       string `json:"kernel,omitempty"`
	OS           string `json:"os,omitempty"`      // such as "Debian GNU/Linux 13 (trixie)"
	Runtime      string `json:"runtime,omitempty"` // such as "containerd://2.1.4"
	CPUs         int    `json:"cpus,omitempty"`    // whole ones that may be allocated
	Memory       int64  `json:"memory,omitempty"`  // bytes that may be allocated
}

// An Omission is a node that is not measured.
type Omission struct {
	Node   string `json:"node"`
	Reason string `json:"reason"` // such as "cordoned"
}

// A State is how far a node's run has come.
type State string

// The states of an Outcome.
const (
	Waiting State = "waiting" // no pod runs yet
	Running State = "running"
	Done    State = "done"   // all rounds are stored
	Failed  State = "failed" // the pod ended without all rounds, by itself
	Gone    State = "gone"   // the pod or its node went away
)

// An Outcome is what is known of one node's run.
type Outcome struct {
	Node   string `json:"node"`
	Pass   int    `json:"pass"` // 1 or 2
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // why it failed or is gone, or waits; foreign text
	Run    string `json:"run,omitempty"`    // the ID of its stored run; "" = nothing is stored
	Rounds int    `json:"rounds"`           // that are stored
	// Clock is how far the node's wall clock is ahead of that of the API server; 0 = not further than can be told.
	Clock time.Duration `json:"clock_ns,omitempty"`
	// ImageID is what the node says that it ran; all nodes of an architecture must say the same.
	ImageID string `json:"image_id,omitempty"`
	Address string `json:"address,omitempty"` // of the pod
	// Admitted lists how the pod differs from what was asked for, such as a limit that the cluster added.
	Admitted []string `json:"admitted,omitempty"`
}

// RoundOf is how long a round of a pass, 1 or 2, is.
func (f *Fleet) RoundOf(pass int) time.Duration {
	if pass == 2 {
		return f.Round - f.Slots
	}
	return f.Round
}

// AheadIn is how far a node's clock was ahead of the cluster's when a pass began; 0 = nothing was allowed for.
func (f *Fleet) AheadIn(pass int, node string) time.Duration {
	if pass > len(f.Ahead) {
		return 0
	}
	return f.Ahead[pass-1][node]
}

// OutcomeOf returns the outcome of a node's pass, nil if there is none.
func (f *Fleet) OutcomeOf(node string, pass int) *Outcome {
	for i := range f.Outcomes {
		if o := &f.Outcomes[i]; o.Node == node && o.Pass == pass {
			return o
		}
	}
	return nil
}

// SetOutcome adds an outcome, or replaces what was known.
func (f *Fleet) SetOutcome(o Outcome) {
	if old := f.OutcomeOf(o.Node, o.Pass); old != nil {
		*old = o
		return
	}
	f.Outcomes = append(f.Outcomes, o)
}
