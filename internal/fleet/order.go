package fleet

import "time"

// Where a pod finds what the client gives it. The files of OrderDir are there when the pod begins; those of
// StartDir appear when all pods run, or never.
const (
	OrderDir   = "/etc/tare/order" // OrderFile and SourceFile
	OrderFile  = "order.json"      // an Order
	SourceFile = "experiment.yaml" // Fleet.Source
	StartDir   = "/etc/tare/start"
	StartFile  = "start.json"            // a Start
	TokenFile  = "/etc/tare/token/token" // what pods prove to each other: hexadecimal, 32 bytes
	DataDir    = "/var/lib/tare"         // the only directory that can be written
	DigestFile = "/dev/termination-log"  // where the digest of the log is left: see package podlog
	EnvNode    = "TARE_NODE"             // the node's name
	EnvPass    = "TARE_PASS"             // "1" or "2"
	EnvAddress = "TARE_ADDRESS"          // the pod's
	EnvNetwork = "TARE_NETWORK"          // "pod" for the one that measures the node; "host" for paths of the hosts' network
)

// PeerPort is the port on which the pods of a fleet answer each other in each network: of UDP, and of TCP for throughput.
const PeerPort = 7673

// An Order is what all pods of a fleet are to do.
type Order struct {
	Fleet    string        `json:"fleet"`
	Tool     string        `json:"tool"`
	Seed     uint64        `json:"seed,string"`
	Rounds   int           `json:"rounds"`            // of pass 1
	Confirm  int           `json:"confirm,omitempty"` // of pass 2
	Round    time.Duration `json:"round_ns"`
	Wait     time.Duration `json:"wait_ns"` // how long a pod waits for its start signal
	Networks []string      `json:"networks,omitempty"`
	PerRound int           `json:"slots,omitempty"` // in which each pair meets at most once, in a round
	// Throughput and Host: see Fleet.
	Throughput bool `json:"throughput,omitempty"`
	Host       bool `json:"host,omitempty"`
}

// A Start says when the rounds of a pass begin.
type Start struct {
	Pass  int           `json:"pass"`
	Began time.Time     `json:"began"` // of the first round, by the wall clock of each node but for Peer.Ahead; UTC
	Round time.Duration `json:"round_ns"`
	Seed  uint64        `json:"seed,string"`
	Peers []Peer        `json:"peers"` // the pods that ran when it was written, in the order of the fleet's nodes
}

// A Peer is one pod of a pass.
type Peer struct {
	Index   int    `json:"i"` // in Fleet.Nodes
	Node    string `json:"node"`
	Address string `json:"ip"`                // of the pod
	Host    string `json:"host_ip,omitempty"` // of the node's pod in the hosts' network; "" = none runs
	Zone    string `json:"zone,omitempty"`    // of the node, if round trips are measured
	// Ahead is how far the node's wall clock is ahead of the cluster's: the rounds begin by so much later on it.
	Ahead time.Duration `json:"ahead_ns,omitempty"`
}
