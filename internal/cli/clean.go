package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

func (a *invocation) cleanCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "clean [RUN...]",
		Short: "Remove what killed runs left on this machine, and nothing else",
		Long: `Clean removes the containers, images, processes, mounts, cgroups and directories
of runs that ended without cleaning up. It never touches a run whose process is
alive, or anything that tare did not make. Stored results stay.

With RUN it also removes objects of a run that has no directory here, such as
containers that a daemon still has. First make sure that no tare with another
--store or of another user is measuring this run: clean cannot see that.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.clean(cmd.Context(), args, dryRun) },
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only show what would be removed")
	cmd.ValidArgsFunction = a.completeDead
	return cmd
}

func (a *invocation) clean(ctx context.Context, named []string, dryRun bool) error {
	t, err := a.newApp()
	if err != nil {
		return err
	}
	if named, err = a.wholeIDs(ctx, named); err != nil {
		return err
	}
	found, err := t.Clean(ctx, app.CleanOptions{
		Runs: named, DryRun: dryRun, Stored: a.stored, Hold: a.hold,
	})
	if found == nil {
		return err
	}
	return errors.Join(a.printCleaned(found, dryRun), err)
}

// wholeIDs turns what users call stored runs into IDs. Other words stay: a run that is to be
// cleaned up after need not be stored, nor the store be there.
func (a *invocation) wholeIDs(ctx context.Context, named []string) ([]string, error) {
	ids := slices.Clone(named)
	var several error
	_ = a.withRuns(ctx, func(s bench.Store) error {
		for i, name := range named {
			id, err := app.FindRun(ctx, s, name)
			switch {
			case err == nil:
				ids[i] = id
			case isKind(err, app.ManyRuns):
				several = err
			}
		}
		return nil
	})
	return ids, several
}

// completeDead proposes runs that ended without cleaning up.
func (a *invocation) completeDead(
	_ *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	t, err := a.newApp()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	dead, _ := t.DeadRuns() // those that cannot be looked at are not proposed
	dead = slices.DeleteFunc(dead, func(id string) bool { return slices.Contains(args, id) })
	return dead, cobra.ShellCompDirectiveNoFileComp
}

// stored reports whether the store has a run, or cannot say.
func (a *invocation) stored(ctx context.Context, id string) bool {
	found := false
	err := a.withRuns(ctx, func(s bench.Store) error {
		all, err := s.Find(ctx, id, 0)
		found = slices.Contains(all, id)
		return err
	})
	return found || err != nil
}

// hold keeps others from working on a stored run until it is released, also after the store is closed.
func (a *invocation) hold(ctx context.Context, id string) (release func() error, err error) {
	err = a.withRuns(ctx, func(s bench.Store) error {
		release, err = app.Hold(ctx, s, id)
		return err
	})
	return release, err
}

func (a *invocation) printCleaned(found []app.Leftover, dryRun bool) error {
	if a.global.JSON {
		return a.printJSON(found)
	}
	if len(found) == 0 {
		a.notice("nothing to clean")
		return nil
	}
	for _, l := range found {
		did := "removed"
		switch {
		case dryRun:
			did = "would remove"
		case !l.Removed:
			did = "could not remove"
		}
		of := ""
		if l.Run != "" { // it is empty for 'tare image' and 'tare pack'
			of = " of run " + l.Run
		}
		fmt.Fprintf(a.stdout, "%s %s %s%s\n", did, l.Kind, plain.Line(l.ID), of)
	}
	return nil
}
