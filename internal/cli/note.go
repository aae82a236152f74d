package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

func (a *invocation) noteCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "note RUN [TEXT...]",
		Short: "Write a note on a stored run, or give it a name",
		Long: fmt.Sprintf(`Note adds a note to a stored run. Notes are shown with the run, in the order in
which they were written, and exported with it. They change nothing that was
measured. A note has at most %d bytes, and a run has at most %d notes.

With --name it gives the run a name in place of the one that it had; --name ""
takes that away. The name can be typed wherever a run is asked for.`, bench.MaxRemark, bench.MaxRemarks),
		Example: `  tare note last "the neighbour was noisy until 14:00"
  tare note 73eh --name before-upgrade`,
		Args: func(cmd *cobra.Command, args []string) error {
			renames := cmd.Flags().Changed("name")
			if len(args) == 0 || len(args) == 1 && !renames {
				return &usageError{
					fmt.Errorf("%s needs a run and a text", cmd.CommandPath()), `write tare note last "the text"`,
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n := noting{
				text: strings.Join(args[1:], " "), notes: len(args) > 1,
				name: name, renames: cmd.Flags().Changed("name"),
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.note(cmd.Context(), s, args[0], n) })
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the run's new `name`, empty for none")
	cmd.ValidArgsFunction = a.completeFirstRun
	return cmd
}

// noting is what is to be written on a run.
type noting struct {
	text, name     string
	notes, renames bool
}

// writtenOn is what is written on a run, as --json prints it.
type writtenOn struct {
	ID    string         `json:"id"`
	Short string         `json:"short"`
	Name  string         `json:"name"`
	Notes []bench.Remark `json:"notes"`
}

func (a *invocation) note(ctx context.Context, s bench.Store, run string, n noting) error {
	id, err := app.FindRun(ctx, s, run)
	if err == nil && n.renames {
		err = app.Rename(ctx, s, id, n.name)
	}
	if err == nil && n.notes {
		err = a.tare.Note(ctx, s, id, n.text)
	}
	if err != nil {
		return err
	}
	h, err := app.HeaderOf(ctx, s, id)
	if err != nil {
		return err
	}
	short := app.NewShortener(ctx, s).Short(ctx, id)
	out := writtenOn{ID: id, Short: short, Name: h.Name, Notes: append([]bench.Remark{}, h.Remarks...)}
	if a.global.JSON {
		return a.printJSON(out)
	}
	switch {
	case n.renames && n.name == "":
		fmt.Fprintf(a.stdout, "%s: no name\n", out.Short)
	case n.renames:
		fmt.Fprintf(a.stdout, "%s: called %s\n", out.Short, plain.Line(out.Name))
	}
	if n.notes {
		fmt.Fprintf(a.stdout, "%s: note %d of %d\n", out.Short, len(out.Notes), bench.MaxRemarks)
	}
	return nil
}

// checkName refuses the name of a new run, or of those on several hosts, before anything is measured for it.
func (a *invocation) checkName(ctx context.Context, cmd *cobra.Command, name string, hosts []string) error {
	if !cmd.Flags().Changed("name") {
		return nil
	}
	if name == "" {
		return &usageError{errors.New("--name has no name"), "name the run, or leave --name out"}
	}
	check := func(s bench.Store) error {
		for _, one := range app.RunNames(name, hosts) {
			if err := app.CheckName(ctx, s, one); err != nil {
				return err
			}
		}
		return nil
	}
	err := a.withRuns(ctx, check)
	if isKind(err, app.NoStore) { // the run makes it
		return check(app.EmptyStore{})
	}
	return err
}
