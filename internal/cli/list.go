package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

func (a *invocation) listCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the stored runs, newest first",
		Long: `List shows the stored runs, newest first. CELLS and TRIALS count everything that
ran, including the control and the warm-up blocks. BEGAN is in local time.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("limit") && limit < 1 {
				return &usageError{fmt.Errorf("invalid value %d for --limit", limit),
					"write 1 or more; without --limit all runs are listed"}
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.list(cmd.Context(), s, limit) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "show at most `N` runs")
	return cmd
}

// listed is one run in the list, as --json prints it.
type listed struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Host    string    `json:"host"`
	Began   time.Time `json:"began"`
	Cells   []string  `json:"cells"` // without the control
	Samples int       `json:"samples"`
	Failed  int       `json:"failed"`
	Partly  int       `json:"partly"` // trials of which a part failed, and others did not
	Status  string    `json:"status"` // "incomplete", or why it stopped
	// Imported says that it began elsewhere, so that it cannot be resumed here.
	Imported bool `json:"imported,omitempty"`
	all      int  // cells, the control among them
}

func (a *invocation) list(ctx context.Context, s bench.Store, limit int) error {
	runs := []listed{}
	var unreadable error
	for r, err := range s.Runs(ctx) {
		if err != nil {
			unreadable = errors.Join(unreadable, err)
			continue
		}
		if limit > 0 && len(runs) == limit {
			break
		}
		runs = append(runs, summarize(r))
	}
	return errors.Join(a.printList(runs, unreadable == nil), unreadable)
}

// printList prints runs. It says that there are none only if all could be read.
func (a *invocation) printList(runs []listed, all bool) error {
	if a.global.JSON {
		return a.printJSON(runs)
	}
	if len(runs) == 0 && !all {
		return nil
	}
	if len(runs) == 0 {
		a.notice("no runs yet; 'tare run' makes one")
		return nil
	}
	writeList(a.stdout, runs, a.lineWidth())
	return nil
}

func summarize(r bench.RunSummary) listed {
	h := r.Header
	out := listed{
		ID: h.ID, Name: h.Plan.Name, Host: h.Host.Hostname, Began: h.Began,
		Samples: r.Samples, Failed: r.Failed, Partly: r.Partly, Status: "incomplete", Cells: []string{},
		Imported: h.Imported, all: len(h.Plan.Cells),
	}
	for _, c := range h.Plan.Cells {
		if !c.Control {
			out.Cells = append(out.Cells, c.FullName())
		}
	}
	if r.End != nil {
		out.Status = string(r.End.Reason)
	}
	return out
}

// printJSON prints a result as JSON that people can read too.
func (a *invocation) printJSON(v any) error {
	return plain.WriteJSON(a.stdout, v, "  ")
}

// none refuses arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0]), seeHelp(cmd)}
}

// atMostOne allows one argument.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return &usageError{fmt.Errorf("unexpected argument %q: %s takes only %s", args[1], cmd.CommandPath(), what),
			seeHelp(cmd)}
	}
}

// exactlyOne wants one argument.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &usageError{fmt.Errorf("%s takes exactly one argument, %s; got %d", cmd.CommandPath(), what, len(args)),
			seeHelp(cmd)}
	}
}

// seeHelp points to the help of a command.
func seeHelp(cmd *cobra.Command) string { return "see '" + cmd.CommandPath() + " --help'" }
