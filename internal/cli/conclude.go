package cli

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

// conclude reports what is stored of a run after it ended, well or not.
func (a *invocation) conclude(
	ctx context.Context, s bench.Store, id string, format formatOptions, quiet bool, runErr error,
) error {
	a.narrator.cleaned(id, runErr)
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
	outcome, beside := app.Conclude(stored, runErr, ctx.Err() != nil)
	if beside != nil {
		_, hint := classify(beside)
		a.tell(beside.Error(), hint)
	}
	return outcome
}
