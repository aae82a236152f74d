package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// conclude reports what is stored of a run after it ended, well or not.
func (a *invocation) conclude(ctx context.Context, s bench.Store, id string, format formatOptions, quiet bool, runErr error) error {
	stored, err := s.Open(context.WithoutCancel(ctx), id)
	if err != nil {
		return errors.Join(runErr, err)
	}
	if len(stored.Samples) > 0 && !quiet {
		// That nobody reads it is known in the end, and no error of the run.
		if err := a.report(stored, format, trailer(stored)); !a.readerGone(err) {
			runErr = errors.Join(runErr, err)
		}
	}
	n, finished := len(stored.Samples), stored.End != nil
	switch {
	case errors.Is(runErr, run.ErrInterrupted), runErr != nil && ctx.Err() != nil:
		return &hintError{fmt.Errorf("run %s: %w; %d trials are stored", id, interruption(runErr), n), "tare resume " + id}
	case runErr != nil && finished:
		return a.concludeFinished(stored, runErr)
	case runErr != nil && n > 0:
		return &hintError{fmt.Errorf("run %s: %w", id, runErr), fmt.Sprintf("the %d trials measured are stored; once it is mended: tare resume %s", n, id)}
	case runErr != nil:
		return runErr
	default:
		return outcome(stored)
	}
}

// interruption says that a run was interrupted, and whatever else went wrong.
func interruption(err error) error {
	if errors.Is(err, run.ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w: %w", run.ErrInterrupted, err)
}

// concludeFinished is for a run that is stored whole although something went
// wrong after it. That an engine died is known from its trials: what it keeps
// is told beside the result.
func (a *invocation) concludeFinished(r *bench.Run, err error) error {
	_, hint := classify(err)
	if failed := outcome(r); errors.Is(err, errLeftBehind) && failed != nil {
		a.tell(err.Error(), hint)
		return failed
	}
	return &hintError{fmt.Errorf("run %s is stored: %w", r.Header.ID, err), hint}
}

func failedTrials(r *bench.Run) int {
	n := 0
	for _, s := range r.Samples {
		if s.Outcome != bench.OK && s.Outcome != bench.Unsupported {
			n++
		}
	}
	return n
}
