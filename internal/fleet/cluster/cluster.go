// Package cluster runs a fleet in a cluster without any server of its own: one Job for each node, a few ConfigMaps
// and a Secret. What a fleet is stands in its root ConfigMap, which owns all the rest, so any client that knows the
// fleet's ID can go on where another was stopped; and what pods have to say is in their logs (package podlog).
//
// Nothing here changes nodes, and nothing is removed that has not both the label and the owner of the fleet.
package cluster

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A Plan is what is known of a fleet before its pods run. It is kept in the root ConfigMap.
type Plan struct {
	Fleet fleet.Fleet `json:"fleet"`
	Pod   Pod         `json:"pod"`
	// Lead lies between the signal to begin and the first round; 0 = the two minutes that a cluster needs to show it to
	// all pods. Tests have less.
	Lead time.Duration `json:"lead_ns,omitempty"`

	draw string // ends the name of the Secrets that the pods are given; "" = none were made
}

// A Pod is what is asked for in each pod.
type Pod struct {
	Args   []string `json:"args"`   // of the image's program, such as "agent", "pod"
	Memory int64    `json:"memory"` // bytes: the request and the limit
	Disk   int64    `json:"disk"`   // bytes that DataDir may have
	// CPUs is how many whole ones the pod has for itself: request and limit. 0 = a small request and no limit.
	CPUs        int               `json:"cpus,omitempty"`
	PullSecrets []string          `json:"pull_secrets,omitempty"`
	Tolerations []kube.Toleration `json:"tolerations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // of Jobs and pods, beside those of the fleet
	Priority    string            `json:"priority,omitempty"`
}

// A Request is a fleet that is asked for.
type Request struct {
	// Plan has everything but the nodes, the cluster and further namespaces. Fleet.Namespaces has one.
	Plan
	Selector string   // of nodes, by their labels; "" = all
	Nodes    []string // by their names; empty = all
}

// A Preflight is what would happen.
type Preflight struct {
	Plan Plan // with its nodes and those left out
	// Problems are why the fleet cannot run, each with what to do; foreign text. Empty = it can.
	Problems []string
	Notes    []string // what else is worth knowing, such as a quota that could not be read
	Admitted []string // how the cluster changes the pods that are asked for
	// Objects is how many would be made, Calls how many requests to the API server there would be in all.
	Objects, Calls int
	Ramp           time.Duration // until all pods run, as far as it can be known
	Length         time.Duration // of everything, with the second pass
	CPUSeconds     float64       // at most: all CPUs that each pod may use, over all rounds
	LogBytes       int64         // a guess
	Ask            string        // why somebody should be asked first; "" = no need
}

// Hooks are told how it goes. Any may be nil. They are never called at the same time.
type Hooks struct {
	// Progress is how many nodes are as a phase of the work wants them: Creating, Starting, Measuring, Cleaning.
	Progress func(phase Phase, done, total int)
	// Outcome is told of each node whose outcome has changed.
	Outcome func(fleet.Outcome)
	// Trouble is told of what does not stop the work, such as a log that could not be read.
	Trouble func(error)
	// Sink takes what was read of a node's run: see Part. BadRecords fails the node; any other error ends the work.
	Sink func(context.Context, Part) (Stored, error)
}

// A Phase is a part of the work.
type Phase string

// The phases.
const (
	Creating  Phase = "creating"  // Jobs
	Starting  Phase = "starting"  // pods
	Measuring Phase = "measuring" // until their runs are ended and read
	Cleaning  Phase = "cleaning"
)

// A Part is what was read of a pod so far. The next Part of the pod has at least as much.
type Part struct {
	Node    string
	Pass    int
	Network string       // pairs.Pod for the pod that measures the node; others have only Trips
	Records []byte       // of the record stream, in whole lines; after a hole damaged ones (see record.Salvager), if Final
	Final   bool         // nothing more comes
	Trips   []pairs.Trip // not checked
}

// BadRecords is the error of a Sink that could not use a Part for what is in it.
type BadRecords struct{ Err error }

func (e *BadRecords) Error() string { return "its records are of no use: " + e.Err.Error() }

// Unwrap returns what is wrong with the records.
func (e *BadRecords) Unwrap() error { return e.Err }

// Stored is what is stored of a Part.
type Stored struct {
	Run    string // its ID; "" = nothing could be stored
	Rounds int    // whole rounds
}
