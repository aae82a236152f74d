// Package remote lends the engines of one machine to another: a server that makes containers here
// for a client elsewhere, and what the two say to each other. How they reach each other, package
// peer knows.
//
// A connection is a session. When a session ends, in whatever way, everything that it made is
// removed.
package remote

import "github.com/tare-bench/tare/internal/bench"

// Role is that of a server: 'tare agent serve'.
const Role = "serve"

// The operations. Each of them except Attach does what the method with that name does.
const (
	OpMachine = "machine" // answers with a Machine
	OpPing    = "ping"    // does nothing
	OpProbe   = "probe"
	OpPrepare = "prepare"
	OpClose   = "close"
	OpCreate  = "create" // answers with the container's ID
	OpAttach  = "attach" // answers, once attached, with a stream for package stdstream
	OpInspect = "inspect"
	OpStart   = "start"
	OpWait    = "wait"
	OpRemove  = "remove"
	OpAddress = "address" // answers with the port of the server
	OpPath    = "path"
)

// A Request has the arguments of an operation; each operation uses the fields that it needs.
type Request struct {
	Engine string `json:"engine,omitempty"`
	// Container is the client's number for a container, not 0 and never used twice in a session.
	// The client chooses it, so that it can remove a container even if the answer to its creation
	// was lost.
	Container uint64     `json:"container,omitempty"`
	Spec      bench.Spec `json:"spec,omitzero"`
	Port      bench.Port `json:"port,omitzero"`
	Stdout    bool       `json:"stdout,omitempty"`
	Stderr    bool       `json:"stderr,omitempty"`
}

// A Machine is what a server tells about itself.
type Machine struct {
	Host     bench.HostFacts `json:"host"`
	Warnings []bench.Warning `json:"warnings"` // what disturbs measurements on that machine
	Engines  []string        `json:"engines"`  // names of the engines that it offers
}
