package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

func (a *invocation) resumeCommand() *cobra.Command {
	var format formatOptions
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Continue a run that was interrupted or killed",
		Long: `Resume finishes a run with the same plan, seed and schedule. It first removes
what the killed run left behind, and then begins with the first trial that has
no sample. Without RUN it takes the newest incomplete run.`,
		Args: atMostOne("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(a.global.JSON); err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				return a.resume(cmd.Context(), s, args, format)
			})
		},
	}
	format.addFlags(cmd.Flags())
	a.addTokenFlag(cmd.Flags())
	cmd.ValidArgsFunction = a.completeRuns
	return cmd
}

func (a *invocation) resume(ctx context.Context, s bench.Store, args []string, format formatOptions) error {
	stored, err := app.Incomplete(ctx, s, append(args, "")[0])
	if err != nil {
		return err
	}
	t, err := a.here()
	if err != nil {
		return err
	}
	id, err := t.Resume(ctx, s, stored, app.Options{Interrupt: a.interrupted})
	if id == "" {
		return err
	}
	return a.conclude(ctx, s, id, format, false, err)
}
