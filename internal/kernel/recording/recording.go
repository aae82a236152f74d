// Package recording has what a tracer saw of the kernel in one trial, and the form in which a bench.Trace
// keeps it. It neither traces nor explains.
package recording

import (
	"time"
)

// A Recording is what a tracer saw of some processes in one trial: tare, the daemons of the engine, and all
// that they started.
type Recording struct {
	Processes []Process // that were there when the recording began; others have a Fork
	Events    []Event   // in order of time
	// Stacks are kernel functions by their names, the innermost first. Events refer to them by index.
	Stacks  [][]string
	Lost    int    // events, processes and calls without room, and events that the kernel left out
	NoStack int    // events that should have a stack, and for which the kernel gave none
	Failed  string // why nothing was recorded, as a clause; empty if something was
}

// A Process is one that was there when the recording began.
type Process struct {
	ID     int    `json:"id"`
	Parent int    `json:"parent"`
	Name   string `json:"name"`           // of its program; foreign text
	Tare   bool   `json:"tare,omitempty"` // it is tare itself
}

// A Kind says what happened.
type Kind int

// The kinds of events. The comments say what is set besides At, Thread and Process, which are those of the
// thread that did it.
const (
	Fork   Kind = iota + 1 // Other, OtherProcess: the new thread
	Exec                   // Text: the file, as it was asked for; Other: the thread's ID before
	Exit                   // the thread ends; Text: the name of its system call, if that is what ends it; then Began
	Switch                 // it left the CPU to Other, OtherProcess; Preempted; Stack if it did not have to
	Wake                   // it woke Other, OtherProcess; Text: its own name; Stack: where it was
	Call                   // a system call has returned; Text: its name; Began; Other: the family of its socket, or 0
	Group                  // it made a control group, or moved a process into one
)

// An Event is one thing that happened.
type Event struct {
	At              time.Duration // since the Sample began; can be negative
	Kind            Kind
	Thread, Process int // IDs; 0 = the idle CPU
	Other           int
	OtherProcess    int
	Preempted       bool
	Stack           int // index in Recording.Stacks; -1 = none
	Began           time.Duration
	Text            string // may be foreign
}

// inCall reports whether the event is of a system call, which began before.
func (e *Event) inCall() bool { return e.Kind == Call || e.Kind == Exit && e.Text != "" }
