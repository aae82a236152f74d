// Package remote lends the engines of one machine to another: a server that
// makes containers here for a client elsewhere, and the client's side of it.
//
// They talk over one TLS 1.3 connection. First each proves to the other that it
// has the token, bound to this very connection (greet.go), so that a server needs
// no certificate that anybody would have to know. What follows is HTTP/2, which
// brings many operations at once, their cancellation, back pressure and a sign of
// life; nobody without the token gets as far. An operation is a POST of a Request
// to "/" and its name, and answers with JSON; Attach answers with the output.
//
// A connection is a session. Whatever a session made is removed when it ends,
// however it ends.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-bench/tare/internal/bench"
)

// protocol grows whenever two versions of this package would misunderstand each
// other before they could compare the version of tare.
const protocol = 1

// Bounds of what either side reads of one message.
const (
	maxRequest  = 256 << 10
	maxResponse = 4 << 20
)

// The operations. Each but Attach does what the method of that name does.
const (
	OpMachine = "machine" // answers with a Machine
	OpPing    = "ping"    // does nothing
	OpProbe   = "probe"
	OpPrepare = "prepare"
	OpClose   = "close"
	OpCreate  = "create" // answers with the container's ID
	OpAttach  = "attach" // answers, once attached, with a stream as package stdstream reads it
	OpInspect = "inspect"
	OpStart   = "start"
	OpWait    = "wait"
	OpRemove  = "remove"
	OpAddress = "address" // answers with the port of the server
	OpPath    = "path"
)

// A Request is what an operation is asked with: the fields that it needs.
type Request struct {
	Engine string `json:"engine,omitempty"`
	// Container is the client's number for a container, not 0 and never used
	// twice in a session. The client chooses it, so that it can remove what it
	// has asked for and not heard of.
	Container uint64     `json:"container,omitempty"`
	Spec      bench.Spec `json:"spec,omitzero"`
	Port      bench.Port `json:"port,omitzero"`
	Stdout    bool       `json:"stdout,omitempty"`
	Stderr    bool       `json:"stderr,omitempty"`
}

// A Machine is what a server tells about itself.
type Machine struct {
	Host     bench.HostFacts `json:"host"`
	Warnings []bench.Warning `json:"warnings"` // what disturbs measurements there
	Engines  []string        `json:"engines"`  // that it offers, by name
}

// A failure is how an operation answers that went wrong.
type failure struct {
	Text string `json:"error"`
	Kind string `json:"kind,omitempty"`
}

// An Error is what went wrong on the other machine, in its words.
type Error struct {
	Text string
	kind error // that it wraps; nil for none that matters
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.kind }

// kinds are the errors that callers tell apart, by their names on the wire.
func kinds() map[string]error {
	return map[string]error{
		"unsupported": bench.ErrUnsupported,
		"mismatch":    bench.ErrMismatch,
		"no-file":     fs.ErrNotExist,
		"canceled":    context.Canceled,
		"deadline":    context.DeadlineExceeded,
	}
}

func failureOf(err error) failure {
	f := failure{Text: err.Error()}
	for name, kind := range kinds() {
		if errors.Is(err, kind) {
			f.Kind = name
		}
	}
	return f
}

func (f failure) err(address string) error {
	return &Error{fmt.Sprintf("%s: %s", address, f.Text), kinds()[f.Kind]}
}
