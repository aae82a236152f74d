package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-bench/tare/internal/bench"
)

// A Kind says what went wrong with another machine.
type Kind string

// The kinds of an Error.
const (
	NoSSH        Kind = "no-ssh"        // the program that connects is not here
	Unreachable  Kind = "unreachable"   // ssh did not get there; Text has its words
	OtherSystem  Kind = "other-system"  // it is not Linux
	NoProgram    Kind = "no-program"    // there is none for Arch here that can be used
	NotCopied    Kind = "not-copied"    // the program could not be put into Dir
	NoSum        Kind = "no-sum"        // it has no sha256sum
	ForeignDir   Kind = "foreign-dir"   // the directory for the program is not the login's own
	CutShort     Kind = "cut-short"     // the connection ended before tare had greeted, but after the machine had answered
	NotStarted   Kind = "not-started"   // the program is there, but did not greet
	OtherVersion Kind = "other-version" // another tare serves there
	OtherRole    Kind = "other-role"    // the login does something else than it was asked for
	Lost         Kind = "lost"          // the connection ended in the middle
)

// An Error says why another machine cannot be used, or no longer.
type Error struct {
	Host string // as it was named
	Kind Kind
	Text string // what is wrong, in a sentence; it may have words of the other machine
	Arch string // of the machine, if Kind is NoProgram
	Dir  string // on the machine, if Kind is NotCopied; empty if it is not the reason
	err  error
}

func (e *Error) Error() string { return e.Host + ": " + e.Text }
func (e *Error) Unwrap() error { return e.err }

// A failure is the answer of an operation that failed.
type failure struct {
	Text string `json:"error"`
	Kind string `json:"kind,omitempty"`
}

// A refusal is an error that the other side answered with.
type refusal struct {
	Text string
	kind error // the error that it wraps; nil if it is not in kinds
}

func (e *refusal) Error() string { return e.Text }
func (e *refusal) Unwrap() error { return e.kind }

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

func (f failure) err(host string) error {
	return &refusal{fmt.Sprintf("%s: %s", host, f.Text), kinds()[f.Kind]}
}
