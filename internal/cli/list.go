package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/bench"
)

func (a *app) listCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the stored runs, newest first",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s bench.Store) error { return a.list(cmd.Context(), s, limit) })
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
	Cells   []string  `json:"cells"`
	Samples int       `json:"samples"`
	Failed  int       `json:"failed"`
	Status  string    `json:"status"` // "incomplete", or why it stopped
}

func (a *app) list(ctx context.Context, s bench.Store, limit int) error {
	runs := []listed{}
	for r, err := range s.Runs(ctx) {
		if err != nil {
			return err
		}
		if limit > 0 && len(runs) == limit {
			break
		}
		runs = append(runs, summarize(r))
	}
	if a.global.JSON {
		return a.printJSON(runs)
	}
	if len(runs) == 0 {
		a.notice("no runs yet: 'tare run' makes one")
		return nil
	}
	_, tty := terminal(a.stdout.Writer)
	return writeList(a.stdout, runs, tty)
}

func summarize(r bench.RunSummary) listed {
	h := r.Header
	out := listed{
		ID: h.ID, Name: h.Plan.Name, Host: h.Host.Hostname, Began: h.Began,
		Samples: r.Samples, Failed: r.Failed, Status: "incomplete", Cells: []string{},
	}
	for _, c := range h.Plan.Cells {
		if !c.Control {
			out.Cells = append(out.Cells, cellName(c))
		}
	}
	if r.End != nil {
		out.Status = string(r.End.Reason)
	}
	return out
}

func cellName(c bench.Cell) string {
	if c.Condition == "" {
		return c.Name
	}
	return c.Name + " " + c.Condition
}

// writeList prints times that people read on a terminal, and times that
// programs read elsewhere.
func writeList(w io.Writer, runs []listed, tty bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tEXPERIMENT\tHOST\tBEGAN\tCELLS\tTRIALS\tFAILED\tSTATUS")
	for _, r := range runs {
		began := r.Began.UTC().Format(time.RFC3339)
		if tty {
			began = r.Began.Local().Format("2006-01-02 15:04")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n",
			r.ID, printable(r.Name), printable(r.Host), began, len(r.Cells), r.Samples, r.Failed, r.Status)
	}
	return t.Flush()
}

// printJSON prints a result as JSON that people can read too.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// none refuses arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0]), cmd.CommandPath() + " --help"}
}

// atMostOne allows one argument.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return &usageError{fmt.Errorf("%s takes at most %s, got %d arguments", cmd.CommandPath(), what, len(args)), cmd.CommandPath() + " --help"}
	}
}

// exactlyOne wants one argument.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &usageError{fmt.Errorf("%s takes %s, got %d arguments", cmd.CommandPath(), what, len(args)), cmd.CommandPath() + " --help"}
	}
}
