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
	ctx, cut := context.WithoutCancel(ctx), ctx.Err() != nil
	short := app.NewShortener(ctx, s)
	discarded, keepErr := app.Discard(ctx, s, stored)
	if len(stored.Samples) > 0 && !quiet {
		end := storedHint(stored, shortIn(ctx, short))
		if discarded {
			end = nil
		}
		// A closed stdout is not an error of the run; Main handles it at the end.
		if err := a.report(stored, format, shortIn(ctx, short), end); !a.isBrokenPipe(err) {
			runErr = errors.Join(runErr, err)
		}
	}
	outcome, beside := app.Conclude(stored, runErr, cut)
	if beside != nil {
		_, hint := classify(beside)
		a.printMessage(beside.Error(), hint)
	}
	return errors.Join(short.Shorten(ctx, outcome), keepErr)
}
