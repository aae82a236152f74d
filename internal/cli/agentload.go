package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/https"
)

// agentLoadCommand runs a load that is too large for the agent. Workloads start it
// as a process of its own; people have no use for it.
func (a *invocation) agentLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "load " + https.Name + " [KEY=VALUE...]",
		Short:  "Run a load that is too large for the agent, and print its report",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] != https.Name {
				return &usageError{fmt.Errorf("unknown load %q", args), "the only load is " + https.Name}
			}
			options, err := load.ParseArgs(args[1:])
			if err != nil {
				return &usageError{err, "write KEY=VALUE"}
			}
			report, err := https.Run(options)
			if err != nil {
				return err
			}
			line, err := report.Line()
			if err == nil {
				_, err = a.stdout.Write(line)
			}
			return err
		},
	}
}
