package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/https"
	"github.com/tare-bench/tare/internal/load/postgrestls"
)

// largeLoads are the loads that are too large for the agent.
func largeLoads() map[string]func(*load.Args) (*load.Report, error) {
	return map[string]func(*load.Args) (*load.Report, error){
		https.Name:       https.Run,
		postgrestls.Name: postgrestls.Run,
	}
}

// agentLoadCommand runs a load that is too large for the agent. Workloads start it
// as a process of its own; people have no use for it.
func (a *invocation) agentLoadCommand() *cobra.Command {
	names := strings.Join(slices.Sorted(maps.Keys(largeLoads())), ", ")
	return &cobra.Command{
		Use:    "load NAME [KEY=VALUE...]",
		Short:  "Run a load that is too large for the agent, and print its report",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || largeLoads()[args[0]] == nil {
				return &usageError{fmt.Errorf("unknown load %q", args), "use one of " + names}
			}
			options, err := load.ParseArgs(args[1:])
			if err != nil {
				return &usageError{err, "write KEY=VALUE"}
			}
			report, err := largeLoads()[args[0]](options)
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
