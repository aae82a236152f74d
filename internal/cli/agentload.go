package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/load/https"
	"github.com/tare-bench/tare/internal/load/postgrestls"
)

// largeLoads are the loads that are too large for the agent.
func largeLoads() []agent.Loader {
	return []agent.Loader{{Name: https.Name, Run: https.Run}, {Name: postgrestls.Name, Run: postgrestls.Run}}
}

// agentLoadCommand runs a load that is too large for the agent, in the same way, and stays until it is stopped.
// Workloads start it as a process of its own; people have no use for it.
func (a *invocation) agentLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "load [turns] NAME [KEY=VALUE...]",
		Short:  "Run a load that is too large for the agent, and print its report",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := agent.RunLoads(largeLoads(), args, a.stdout, func(err error) { os.Exit(a.fail(err)) })
			if err == nil {
				<-cmd.Context().Done()
			}
			return err
		},
	}
}
