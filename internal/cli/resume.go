package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

func (a *invocation) resumeCommand() *cobra.Command {
	var format formatOptions
	var more moreOptions
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Continue an interrupted run, or extend a finished one",
		Long: `Resume finishes a run with the same plan, seed and schedule. It first removes
what the killed run left behind, and then begins with the first trial that has
no sample. Without RUN it takes the newest incomplete run.

With --budget or --blocks it extends a finished run, the newest one without RUN,
by more blocks of the same plan and seed. The limit that is reached first ends
the run. An extended run has been looked at more than once, and its verdicts
allow for that: they need clearer evidence than those of a new run of the same
length.`,
		Example: `  tare resume
  tare resume last --budget 5m`,
		Args: atMostOne("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkFormat(format); err != nil {
				return err
			}
			extends, err := more.read(cmd.Flags())
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				if extends {
					return a.extend(cmd.Context(), s, args, more.More, format)
				}
				return a.resume(cmd.Context(), s, args, format)
			})
		},
	}
	more.addFlags(cmd.Flags())
	format.addFlags(cmd)
	format.addDirFlag(cmd)
	cmd.ValidArgsFunction = a.completeRuns
	return cmd
}

func (a *invocation) resume(ctx context.Context, s bench.Store, args []string, format formatOptions) error {
	stored, err := app.Incomplete(ctx, s, append(args, "")[0])
	if err != nil {
		return err
	}
	if stored.Header.Joint != nil {
		return a.resumeOn(ctx, s, stored, format)
	}
	t, err := a.newApp()
	if err != nil {
		return err
	}
	if err := a.beginLog(format.dir); err != nil {
		return err
	}
	id, err := t.Resume(ctx, s, stored, app.Options{Interrupt: a.interrupted})
	if id == "" {
		return a.dropLog(err)
	}
	return a.conclude(ctx, s, id, format, false, err)
}
