package bench

import "time"

// A Trace is what happened in one trial, event by event, as far as there is room.
type Trace struct {
	Events  []TraceEvent `json:"events,omitempty"`   // in order of time; at most MaxTraceEvents, of MaxTraceBytes in all
	LeftOut int          `json:"left_out,omitempty"` // how many more there were
}

// A TraceEvent is one thing that a Tracer saw.
type TraceEvent struct {
	At         time.Duration `json:"at_ns"`                // since the Sample began; never negative
	Name       string        `json:"name"`                 // what happened, such as "exec"; never empty
	Source     string        `json:"source,omitempty"`     // where, such as the name of a process
	Attributes []Label       `json:"attributes,omitempty"` // what else is known of it
}

// MaxTraceEvents and MaxTraceBytes are how many events a Trace has at most, and how much
// they take together, as Size has it.
const (
	MaxTraceEvents = 10_000
	MaxTraceBytes  = 512 << 10
)

// Size is how much of a Trace's room the event takes, in bytes: its texts, and a fixed
// number for each attribute.
func (e *TraceEvent) Size() int {
	const attribute = 24
	n := len(e.Name) + len(e.Source)
	for _, a := range e.Attributes {
		n += attribute + len(a.Key) + len(a.Value)
	}
	return n
}
