package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

func (a *invocation) listCommand() *cobra.Command {
	var limit int
	var filter filterOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the stored runs, newest first",
		Long: `List shows the stored runs, newest first. CELLS are what a run compares, and
TRIALS counts all that ran, including the control and the warm-up blocks. BEGAN
is in local time. RUN is the end of the run's ID, which every command takes in
place of the ID; --json has both. A run whose process is at work is "running".

` + filterDocs,
		Example: `  tare list --since 7d --engine docker
  tare list --label side=before --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("limit") && limit < 1 {
				return &usageError{
					fmt.Errorf("invalid value %d for --limit", limit),
					"write 1 or more; without --limit all runs are listed",
				}
			}
			chosen, err := filter.read(a.now())
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.list(cmd.Context(), s, chosen, limit) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "show at most `N` runs")
	filter.addFlags(a, cmd)
	return cmd
}

// listed is one run in the list, as --json prints it.
type listed struct {
	ID         string         `json:"id"`
	Short      string         `json:"short"` // an end of the ID that means this run
	Name       string         `json:"name"`  // that its user gave it; empty where it has none
	Experiment string         `json:"experiment"`
	Host       string         `json:"host"`
	Began      time.Time      `json:"began"`
	Cells      []string       `json:"cells"` // without the control
	Samples    int            `json:"samples"`
	Failed     int            `json:"failed"`
	Partly     int            `json:"partly"` // trials of which a part failed, and others did not
	Status     string         `json:"status"` // "incomplete", "running", or why it stopped
	Labels     []bench.Label  `json:"labels"`
	Notes      []bench.Remark `json:"notes"`
	// Imported says that it began elsewhere, so that it cannot be resumed here.
	Imported bool     `json:"imported,omitempty"`
	names    []string // of the cells, without their conditions
}

func (a *invocation) list(ctx context.Context, s bench.Store, filter *app.Filter, limit int) error {
	runs := []listed{}
	short := app.NewShortener(ctx, s)
	var unreadable error
	for r, err := range s.Runs(ctx) {
		if err != nil {
			unreadable = errors.Join(unreadable, err)
			continue
		}
		if limit > 0 && len(runs) == limit {
			break
		}
		if filter.Chooses(&r.Header) {
			runs = append(runs, a.summarize(ctx, r, short))
		}
	}
	return errors.Join(a.printList(runs, filter, unreadable == nil), unreadable)
}

// printList prints runs. It says that there are none only if all could be read.
func (a *invocation) printList(runs []listed, filter *app.Filter, all bool) error {
	switch {
	case a.global.JSON:
		return a.printJSON(runs)
	case len(runs) > 0:
		writeList(a.stdout, runs, a.lineWidth(), a.now())
	case !all:
	case filter.All():
		a.notice("no runs yet; 'tare run' makes one")
	default:
		a.notice("no such runs; 'tare list' shows all")
	}
	return nil
}

func (a *invocation) summarize(ctx context.Context, r bench.RunSummary, short *app.Shortener) listed {
	h := r.Header
	out := listed{
		ID: h.ID, Short: short.Short(ctx, h.ID), Name: h.Name, Experiment: h.Plan.Name, Host: h.Host.Hostname, Began: h.Began,
		Samples: r.Samples, Failed: r.Failed, Partly: r.PartFailed, Status: "incomplete", Cells: []string{},
		Labels: append([]bench.Label{}, h.Plan.Labels...), Notes: append([]bench.Remark{}, h.Remarks...),
		Imported: h.Imported,
	}
	for _, c := range h.Plan.Cells {
		if !c.Control {
			out.Cells = append(out.Cells, c.FullName())
			if !slices.Contains(out.names, c.Name) {
				out.names = append(out.names, c.Name)
			}
		}
	}
	switch {
	case r.End != nil:
		out.Status = string(r.End.Reason)
	case a.underWay(&h):
		out.Status = "running"
	}
	return out
}

// printJSON prints a result as JSON that people can read too.
func (a *invocation) printJSON(v any) error {
	return plain.WriteJSON(a.stdout, v, "  ")
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
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
		return &usageError{
			fmt.Errorf("unexpected argument %q: %s takes only %s", args[1], cmd.CommandPath(), what),
			seeHelp(cmd),
		}
	}
}

// exactlyOne wants one argument.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &usageError{
			fmt.Errorf("%s takes exactly one argument, %s; got %d", cmd.CommandPath(), what, len(args)),
			seeHelp(cmd),
		}
	}
}

// seeHelp points to the help of a command.
func seeHelp(cmd *cobra.Command) string { return "see '" + cmd.CommandPath() + " --help'" }
