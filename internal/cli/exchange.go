package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

func (a *invocation) exportCommand() *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Export a stored run with all its samples",
		Long: strings.Join(term.Wrap("Export writes a run as it is stored: every sample of every trial, failures included. "+
			exportDocs()+` RUN is an ID, a unique beginning or end of one, a name, or "last". `+
			"'tare show RUN --format NAME' writes what was found for other programs, such as OpenMetrics (see "+
			"docs/exports.md).", 79), "\n"),
		Args: exactlyOne("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := exporter(format)
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				id, err := app.FindRun(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				var seen damage
				events := seen.filter(record.Stored(cmd.Context(), s, id))
				err = a.toFile(output, func(w io.Writer) error {
					b := bufio.NewWriter(w)
					if err := write(b, events); err != nil {
						return err
					}
					return b.Flush()
				})
				return errors.Join(err, seen.err(id))
			})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", exportNames()[0], "`format`: "+strings.Join(exportNames(), ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "-", "`file` to write; - for stdout")
	cmd.ValidArgsFunction = a.completeRuns
	completeFlag(cmd, "format", completeFixed(exportNames()...))
	return cmd
}

// damage counts the samples of a run that are damaged in the store, in one reading of it.
type damage struct {
	first bench.Sample
	n     int
}

// filter passes the pieces of a run on.
func (d *damage) filter(events iter.Seq2[record.Event, error]) iter.Seq2[record.Event, error] {
	return func(yield func(record.Event, error) bool) {
		*d = damage{}
		for e, err := range events {
			if e.Sample != nil && slices.Contains(e.Sample.Notes, bench.NoteDamaged) {
				if d.n++; d.n == 1 {
					d.first = *e.Sample
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// err says that the export lacks something that was measured.
func (d *damage) err(id string) error {
	if d.n == 0 {
		return nil
	}
	return &hintError{
		fmt.Errorf("run %s: damaged trials, exported as failed: %d; the first is trial %d: %s",
			id, d.n, d.first.Trial.Seq, d.first.Reason),
		"'tare check' lists all of them",
	}
}

// exporter returns what writes a run in a format.
func exporter(format string) (func(io.Writer, iter.Seq2[record.Event, error]) error, error) {
	for _, e := range app.Exports() {
		if e.Name == format {
			return e.Write, nil
		}
	}
	return nil, &usageError{
		fmt.Errorf("invalid value %q for --format", format),
		"the formats are " + sentenceList(exportNames()),
	}
}

func exportNames() (all []string) {
	for _, e := range app.Exports() {
		all = append(all, e.Name)
	}
	return all
}

// exportDocs says what the formats are, in one sentence.
func exportDocs() string {
	var all []string
	for _, e := range app.Exports() {
		all = append(all, fmt.Sprintf("%q %s", e.Name, e.Doc))
	}
	return "The format " + strings.Join(all, "; ") + "."
}

// toFile writes to stdout or to a file, which it removes again if f fails.
func (a *invocation) toFile(name string, f func(io.Writer) error) error {
	if name == "-" {
		return f(a.stdout)
	}
	file, err := createFile("--output", name)
	if err != nil {
		return err
	}
	if err := errors.Join(f(&result{Writer: file, what: "--output"}), file.Close()); err != nil {
		return errors.Join(err, removeFile(name))
	}
	return nil
}

func (a *invocation) importFiles(ctx context.Context, s bench.Store, names []string) error {
	all := []app.ImportedRun{}
	var damaged error
	for _, name := range names {
		err := a.importFile(ctx, s, name, &all)
		var faults *record.Faults
		if err != nil && !errors.As(err, &faults) {
			return errors.Join(a.printImported(ctx, s, all), damaged, err)
		}
		damaged = errors.Join(damaged, err)
	}
	return errors.Join(a.printImported(ctx, s, all), damaged)
}

func (a *invocation) importFile(ctx context.Context, s bench.Store, name string, all *[]app.ImportedRun) error {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return &usageError{err, "give a file that 'tare export' wrote, or - for stdin"}
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	} else {
		name = "stdin"
	}
	stored, err := app.Import(ctx, s, in)
	*all = append(*all, stored...)
	var broken *record.Error
	var faults *record.Faults
	switch {
	case errors.As(err, &faults):
		return &hintError{
			fmt.Errorf("%s: %w", name, err),
			"everything else was imported; 'tare check' lists the trials that are lost. If there is an intact copy, " +
				"remove the run with 'tare rm' and import that",
		}
	case errors.As(err, &broken):
		return &usageError{fmt.Errorf("%s: %w", name, err), "import reads what 'tare export' or 'tare run -o' wrote"}
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case len(stored) == 0:
		return &usageError{
			fmt.Errorf("%s: there is no run in it", name),
			"import reads what 'tare export' or 'tare run -o' wrote; what should have written it may have failed",
		}
	}
	return nil
}

func (a *invocation) printImported(ctx context.Context, s bench.Store, all []app.ImportedRun) error {
	if a.global.JSON {
		return a.printJSON(all)
	}
	short := app.NewShortener(ctx, s)
	for _, r := range all {
		unchecked := ""
		if !r.Sums {
			unchecked = ", not checked: an older tare wrote it without checksums"
		}
		unnamed := ""
		if r.Unnamed != nil {
			unnamed = ", without its name: " + short.Shorten(ctx, r.Unnamed).Error()
		}
		damaged := ""
		if r.Damaged > 0 {
			damaged = fmt.Sprintf(", damaged trials, imported as failed: %d", r.Damaged)
		}
		var labels strings.Builder
		for _, l := range r.Labels {
			labels.WriteString(", " + plain.Line(l.Key+"="+l.Value))
		}
		fmt.Fprintf(a.stdout, "%s: %s, %s%s%s%s%s\n", short.Short(ctx, r.ID), r.Status,
			unit.FormatCount(r.Samples, "trial"), damaged, unchecked, unnamed, labels.String())
	}
	return nil
}
