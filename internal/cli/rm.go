package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// removing says how runs are to be removed.
type removing struct {
	yes, dryRun bool
}

func (a *invocation) rmCommand() *cobra.Command {
	var how removing
	var filter filterOptions
	cmd := &cobra.Command{
		Use:   "rm [RUN...]",
		Short: "Remove stored runs",
		Long: `Rm removes runs from the store, with everything that was measured: those that
are named, or those that flags choose. The ID of a fleet names all its runs. If stdin and stderr are a terminal, it
lists them and asks; otherwise it needs --yes. It does not remove a run that is
under way. 'tare clean' removes what a killed run left on the machine.

The store's file becomes smaller by what was removed, unless a run is under way:
copying the store would disturb that measurement.

` + filterDocs,
		Example: `  tare rm 73eh before-upgrade
  tare rm --label side=trial --dry-run
  tare rm --before 90d --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := filter.read(a.now())
			switch {
			case err != nil:
				return err
			case len(args) == 0 && chosen.All():
				return &usageError{
					errors.New("which runs?"),
					"'tare list' shows the stored runs: name some, or choose with flags such as --label",
				}
			case len(args) > 0 && !chosen.All():
				return &usageError{errors.New("runs are named, and chosen by flags"), "do one, and then the other"}
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.rm(cmd.Context(), s, args, chosen, how) })
		},
	}
	cmd.Flags().BoolVarP(&how.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVarP(&how.dryRun, "dry-run", "n", false, "only say what would be removed")
	filter.addFlags(a, cmd)
	cmd.ValidArgsFunction = a.completeRuns
	return cmd
}

// removedRun is a run that was chosen for removal, as --json prints it.
type removedRun struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Experiment string `json:"experiment"`
	Trials     int    `json:"trials"`
	Removed    bool   `json:"removed"`
	text       string // for people
}

func (a *invocation) rm(ctx context.Context, s bench.Store, names []string, filter *app.Filter, how removing) error {
	t, err := a.newApp()
	if err != nil {
		return err
	}
	found, beside := t.ToRemove(ctx, s, names, filter)
	if beside != nil && len(names) > 0 {
		return beside
	}
	short := app.NewShortener(ctx, s)
	for _, id := range found.Running {
		a.notice("run %s is under way: it stays", short.Short(ctx, id))
	}
	runs, ids := []removedRun{}, []string{}
	for _, r := range found.Runs {
		runs, ids = append(runs, describeRemoved(r, short.Short(ctx, r.Header.ID))), append(ids, r.Header.ID)
	}
	for _, f := range found.Fleets {
		runs, ids = append(runs, removedRun{
			ID: f.ID, Experiment: f.Experiment,
			text: fmt.Sprintf("fleet %s, %s on %s", f.ID, plain.Line(f.Experiment), unit.FormatCount(len(f.Nodes), "node")),
		}), append(ids, f.ID)
	}
	agreed, err := a.agreed(ctx, runs, how)
	if err != nil {
		return err
	}
	if agreed {
		err = a.remove(ctx, t, s, ids, runs)
	}
	return errors.Join(a.printRemoved(runs, how), err, beside)
}

// describeRemoved describes a chosen run. If its header cannot be read, only its ID is known.
func describeRemoved(r bench.RunSummary, short string) removedRun {
	h := &r.Header
	out := removedRun{ID: h.ID, Name: h.Name, Experiment: h.Plan.Name, Trials: r.Samples}
	parts := []string{short}
	if h.Name != "" {
		parts[0] += " (" + plain.Line(h.Name) + ")"
	}
	if h.Began.IsZero() {
		parts = append(parts, "which cannot be read")
	} else {
		parts = append(parts, plain.Line(about(h)), unit.FormatCount(r.Samples, "trial"))
	}
	out.text = strings.Join(parts, ", ")
	return out
}

// agreed reports whether runs are to be removed. Without a terminal nobody can be asked.
func (a *invocation) agreed(ctx context.Context, runs []removedRun, how removing) (bool, error) {
	if len(runs) == 0 || how.dryRun || how.yes {
		return len(runs) > 0 && !how.dryRun, nil
	}
	if !a.canAsk() {
		return false, &usageError{
			fmt.Errorf("%s would be removed, and nobody can be asked", unit.FormatCount(len(runs), "run")),
			"--yes removes without asking; --dry-run says what would be removed",
		}
	}
	for _, r := range runs {
		fmt.Fprintln(a.stderr, "  "+r.text)
	}
	fmt.Fprintf(a.stderr, "Remove %s for good? [y/N] ", unit.FormatCount(len(runs), "run"))
	answer, err := a.answer(ctx)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// canAsk reports whether somebody can read a question and answer it.
func (a *invocation) canAsk() bool {
	in, isFile := a.stdin.(*os.File)
	_, seen := terminal(a.stderr)
	return seen && isFile && term.IsTerminal(int(in.Fd()))
}

// answer reads a line from stdin, until the command is interrupted.
func (a *invocation) answer(ctx context.Context) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(a.stdin, 1024)).ReadString('\n') // no answer means no
		lines <- line
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return "", context.Cause(ctx)
	}
}

// remove removes runs, and marks those that are gone.
func (a *invocation) remove(ctx context.Context, t *app.App, s bench.Store, ids []string, runs []removedRun) error {
	gone := 0
	err := t.Remove(ctx, s, ids, func(string) { runs[gone].Removed = true; gone++ })
	if errors.Is(err, app.ErrRoom) {
		a.notice("%v", err)
		return nil
	}
	return err
}

func (a *invocation) printRemoved(runs []removedRun, how removing) error {
	if a.global.JSON {
		return a.printJSON(runs)
	}
	if len(runs) == 0 {
		a.notice("no such runs: 'tare list' shows all")
	}
	removed := 0
	for _, r := range runs {
		switch {
		case how.dryRun:
			fmt.Fprintf(a.stdout, "would remove %s\n", r.text)
		case r.Removed:
			removed++
			fmt.Fprintf(a.stdout, "removed %s\n", r.text)
		}
	}
	if removed == 0 && len(runs) > 0 && !how.dryRun {
		a.notice("nothing was removed")
	}
	return nil
}
