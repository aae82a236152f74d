// Package bench is the vocabulary of the product: the plain data that flows
// from a plan to a report, and the small interfaces to the outside world. It does
// no I/O, reads no clock and imports only the standard library.
//
// The words, from design to table:
//
//	A Plan says what to compare: the cells of one workload, and how much evidence to collect.
//	A Cell is one combination of factor levels, such as engine=docker network=none.
//	A Trial is one execution of one cell; a block holds one trial of every cell.
//	A Sample is everything that one trial produced, even if the trial failed.
//	A Run is one execution of a plan on one host: a Header and its Samples.
package bench

import "errors"

// ErrUnsupported is wrapped by the error of an engine, a capability, a factor
// level or a workload that cannot work here at all: wrong kernel, missing
// binary, no permission. Only nil and ErrUnsupported are conclusive answers;
// any other error means "could not find out".
var ErrUnsupported = errors.New("not supported here")

// ErrMismatch is wrapped by Attest's error: an engine applied something else than
// the Spec says. It fails the trial.
var ErrMismatch = errors.New("the engine did not apply what was asked for")

// ErrNoImage is wrapped by the error of an engine whose own store has no image of that
// name. In the message, the engine stands before it and the name after it.
var ErrNoImage = errors.New("has no image")

// ErrOpTime says that an operation reached its time limit: a trial that ends with it
// has timed out.
var ErrOpTime = errors.New("the operation reached its time limit")

// ErrEnded is wrapped by errors about a container whose process inside has ended,
// when the question needs that process to be alive.
var ErrEnded = errors.New("the process inside ended")

// An OpError is the error of an operation, with its name.
type OpError struct {
	Op  string
	Err error
}

func (e *OpError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *OpError) Unwrap() error { return e.Err }
