package app

import (
	"errors"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// Conclude says how a sitting ended, from what is stored of the run afterwards. Err is the
// error of Measure or Resume; cut says whether their context had ended. The outcome is nil
// if all went well, ErrTrialsFailed if the run is finished but trials failed, or else what
// went wrong: for a run that Discard removes, that it is not kept. Beside is a second error
// that users should see but that does not change the outcome: trials that failed when an
// engine died do not say what the engine left behind.
func Conclude(r *bench.Run, err error, cut bool) (outcome, beside error) {
	id, n := r.Header.ID, len(r.Samples)
	switch {
	case n == 0 && (errors.Is(err, run.ErrInterrupted) || err != nil && cut):
		return fmt.Errorf("run %s: %w %w", id, interruption(err), errNothingKept), nil
	case errors.Is(err, run.ErrInterrupted), err != nil && cut:
		err = fmt.Errorf("run %s: %w; stored trials: %d", id, interruption(err), n)
		return &Problem{Kind: Interrupted, Err: err, Run: id, Trials: n}, nil
	case err != nil && r.End != nil:
		if failed := outcomeOf(r); errors.Is(err, errLeftBehind) && failed != nil {
			return failed, err
		}
		return fmt.Errorf("run %s is stored, but: %w", id, err), nil
	case err != nil && n > 0:
		return &Problem{Kind: Stopped, Err: fmt.Errorf("run %s: %w", id, err), Run: id, Trials: n}, nil
	case err != nil:
		return fmt.Errorf("run %s measured nothing, and is not kept: %w", id, err), nil
	default:
		return outcomeOf(r), nil
	}
}

// interruption says that a run was interrupted, and what else went wrong.
func interruption(err error) error {
	if errors.Is(err, run.ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w: %w", run.ErrInterrupted, err)
}

// FailedTrials counts the trials of a run that failed.
func FailedTrials(r *bench.Run) int {
	n := 0
	for _, s := range r.Samples {
		if s.Outcome.Failure() {
			n++
		}
	}
	return n
}
