// Package remote lends the engines of one machine to another: a server that
// makes containers here for a client elsewhere, and the client's side of it.
//
// They use one TLS 1.3 connection. First each side proves to the other that it has the token. The
// proof is bound to this connection (greet.go), so clients need not know a server's certificate.
// Then they use HTTP/2, for concurrent operations, cancellation, back pressure and keep-alive;
// nobody gets this far without the token. An operation is a POST of a Request to "/" and its name,
// and answers with JSON; Attach answers with the output.
//
// A connection is a session. When a session ends, in whatever way, everything that it made is
// removed.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-bench/tare/internal/bench"
)

// protocol grows whenever two versions of this package could misunderstand each other before they
// compare their versions of tare.
const protocol = 1

// Limits on what either side reads of one message, in bytes.
const (
	maxRequest  = 256 << 10
	maxResponse = 4 << 20
)

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

// A failure is the answer of an operation that failed.
type failure struct {
	Text string `json:"error"`
	Kind string `json:"kind,omitempty"`
}

// An Error is an error of the other machine, with its text.
type Error struct {
	Text string
	kind error // the error that it wraps; nil if it is not in kinds
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.kind }

// kinds are the errors that callers distinguish, by their names on the wire.
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
