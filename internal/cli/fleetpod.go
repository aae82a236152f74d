package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/pod"
)

// agentPodCommand is what the pods of a fleet run.
func (a *invocation) agentPodCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:    "pod",
		Short:  "Measure on this node for the 'tare fleet run' that has made this pod",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := pod.Open(root, a.env)
			if errors.Is(err, pod.ErrNoPod) {
				return &usageError{err, "'tare fleet run' makes pods that run this"}
			}
			if err != nil {
				return err
			}
			if a.global.State == "" {
				a.global.State = site.Path(fleet.DataDir)
			}
			t, err := a.newApp()
			if err != nil {
				return err
			}
			a.graceful.Store(true) // the first signal ends the run after the trial in flight
			return t.Pod(cmd.Context(), site, a.stdout, a.interrupted)
		},
	}
	cmd.Flags().StringVar(&root, "root", "/", "`directory` that stands before all paths, for tests")
	return cmd
}
