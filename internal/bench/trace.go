package bench

import "time"

// A Trace lists the events of one trial, as many as there is room for.
type Trace struct {
	Events  []TraceEvent `json:"events,omitempty"`   // in order of time; at most MaxTraceEvents, of MaxTraceBytes in all
	LeftOut int          `json:"left_out,omitempty"` // number of events that were left out
}

// A TraceEvent is one thing that a Tracer saw.
type TraceEvent struct {
	At         time.Duration `json:"at_ns"`                // since the Sample began; never negative
	Name       string        `json:"name"`                 // what happened, such as "exec"; never empty
	Source     string        `json:"source,omitempty"`     // where, such as the name of a process
	Attributes []Label       `json:"attributes,omitempty"` // further facts about it
}

// A trace of a traced trial has one event for each of its Stages: At is when the stage began, and the
// attributes are in StageEvent's order.
const (
	StageEvent  = "stage"  // the name; the source is the metric
	StageName   = "name"   // of the stage
	StageLength = "for_ns" // how long it took
	StageThread = "thread" // the ID of tare's thread in which it ended; left out if it ended inside, or is unknown
	StageInside = "inside" // "true" if it ended inside: see Stage; otherwise left out
	StagePolled = "polled" // "true" if its end was looked for: see Stage; otherwise left out
)

// MaxTraceEvents is the largest number of events of a Trace, and MaxTraceBytes their
// largest total Size.
const (
	MaxTraceEvents = 10_000
	MaxTraceBytes  = 512 << 10
)

// Size is the room that the event takes in a Trace, in bytes: its texts, and a fixed
// number for each attribute.
func (e *TraceEvent) Size() int {
	const attribute = 24
	n := len(e.Name) + len(e.Source)
	for _, a := range e.Attributes {
		n += attribute + len(a.Key) + len(a.Value)
	}
	return n
}
