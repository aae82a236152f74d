package app

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/bench"
)

// Discard removes a run from the store that measured nothing, once it has ended so or before
// its first trial did, and reports whether it did. A run that was interrupted with trials is
// kept, whatever became of them: it can be resumed.
func Discard(ctx context.Context, s bench.Store, r *bench.Run) (discarded bool, err error) {
	if len(r.Samples) > 0 && (r.End == nil || !nothingMeasured(r)) {
		return false, nil
	}
	err = s.Remove(context.WithoutCancel(ctx), r.Header.ID)
	return err == nil, err
}

// errNothingKept says of a run without a trial that it is not stored.
var errNothingKept = errors.New("before its first trial: nothing was measured, and nothing is kept")
