package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/plain"
)

func (a *invocation) cleanCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "clean [RUN...]",
		Short: "Remove what killed runs left on this machine, and nothing else",
		Long: `Clean removes the containers, images, processes, mounts, cgroups and directories
of runs that ended without cleaning up. A run whose process lives is never
touched, nor is anything that no run of tare made. Stored results stay.

With RUN it also removes objects of a run that has no directory here, such as
containers left with a daemon. Be sure then that the run is not under way with
another --state or as another user: that cannot be seen from here.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.clean(cmd.Context(), args, dryRun) },
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be removed")
	return cmd
}

func (a *invocation) printCleaned(found []leftover, dryRun bool) error {
	if a.global.JSON {
		return a.printJSON(append([]leftover{}, found...))
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
		if l.Run != "" { // and not of 'tare image' or 'tare pack'
			of = " of run " + l.Run
		}
		fmt.Fprintf(a.stdout, "%s %s %s%s\n", did, l.Kind, plain.Line(l.ID), of)
	}
	return nil
}
