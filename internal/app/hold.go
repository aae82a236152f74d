package app

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/bench"
)

// A held run is worked on by this process alone, until its writer is closed.
type held struct {
	bench.RunWriter
	release func() error
}

// Close closes the writer, and then lets others work on the run.
func (h held) Close() error { return errors.Join(h.RunWriter.Close(), h.release()) }

// Hold keeps other processes from working on a stored run until it is released. The lock of the run's
// directory keeps only those away that have the same state directory. Of a run that another process
// works on, the error is a Problem of the kind UnderWay; of one that is not stored, it wraps fs.ErrNotExist.
func Hold(ctx context.Context, s bench.Store, id string) (release func() error, err error) {
	h, ok := s.(bench.Holder)
	if !ok {
		return func() error { return nil }, nil
	}
	lock, err := h.Hold(ctx, id)
	if errors.Is(err, bench.ErrHeld) {
		err = isUnderWay(id)
	}
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}
