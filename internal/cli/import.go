package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/text/term"
)

// recordFormat is the format of tare's own runs.
const recordFormat = "record"

// importFormats are all formats, tare's own first.
func importFormats() []string {
	all := []string{recordFormat}
	for _, s := range app.Sources() {
		all = append(all, s.Name)
	}
	for _, c := range converters() {
		if !slices.Contains(all, c.name) {
			all = append(all, c.name)
		}
	}
	return all
}

// importDocs says whose results can be imported, and whose files become experiments.
func importDocs() string {
	var results, files []string
	for _, s := range app.Sources() {
		results = append(results, s.Name+" "+s.Doc)
	}
	for _, c := range converters() {
		files = append(files, c.what)
	}
	return strings.Join(term.Wrap("With --from, import stores results of another program as runs: of "+
		strings.Join(results, "; of ")+". FILE may be a directory. What such a run lacks, and what was corrected in it, "+
		"stands among its warnings (see docs/import.md).", 79), "\n") + "\n\n" +
		strings.Join(term.Wrap("Of "+sentenceList(files)+", --from makes the experiment that does the same work, and lists "+
			"differences in meaning. It stores nothing.", 79), "\n")
}

func (a *invocation) importCommand() *cobra.Command {
	var from, output string
	var labels []string
	cmd := &cobra.Command{
		Use:   "import [FILE...]",
		Short: "Store runs that were exported elsewhere, and results of other programs",
		Long: `Import reads runs in the format "record" and stores them. It reads files, or
stdin if no file is given or the file is -. A run that is already stored stays
as it is; one that was imported in part is continued. If lines are damaged, import
names them and stores everything else: the trials of these lines count as failed.

` + importDocs(),
		Example: `  ssh server tare run -o - | tare import -
  tare import --from pgbench out.txt pgbench_log.*
  tare import --from fio ext4-*.json --label storage=ext4
  tare import --from bucketbench old.yaml -o new.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{foreign.Stdin}
			}
			return a.runImport(cmd, args, from, output, labels)
		},
	}
	cmd.Flags().StringVar(&from, "from", recordFormat, "`format`: "+strings.Join(importFormats(), ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "-", "`file` to write an experiment to; - for stdout")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "a label to store with each run of another program: `KEY=VALUE`")
	completeFlag(cmd, "label", a.completeLabels)
	completeFlag(cmd, "from", completeFixed(importFormats()...))
	return cmd
}

// runImport imports files in the way that a format asks for.
func (a *invocation) runImport(cmd *cobra.Command, args []string, from, output string, labels []string) error {
	how, err := a.importer(from, args)
	if err != nil {
		return err
	}
	given, err := keyValues("label", labels)
	switch {
	case err != nil:
		return err
	case how.source == nil && len(given) > 0:
		return &usageError{
			errors.New("--label works only where results of another program are imported"),
			"tare's own runs keep the labels that they have",
		}
	case how.convert != nil:
		if err := atMostOne("a file")(cmd, args); err != nil {
			return err
		}
		return a.importExperiment(*how.convert, args[0], output)
	case cmd.Flags().Changed("output"):
		return &usageError{
			errors.New("--output works only where a file becomes an experiment"),
			"imported runs go into the store: --store FILE names another one",
		}
	}
	return a.withStore(cmd.Context(), func(s bench.Store) error {
		if how.source == nil {
			return a.importFiles(cmd.Context(), s, args)
		}
		return a.importResults(cmd.Context(), s, app.Results{
			From: *how.source, Names: args, Stdin: a.stdin, Labels: given, Tool: toolVersion(),
		})
	})
}

// An importer is one way to import: both are nil for runs of tare's own.
type importer struct {
	source  *foreign.Source
	convert *converter
}

// importer finds the way for a format and some files. A program can have both results and a file
// that becomes an experiment; then the file decides.
func (a *invocation) importer(from string, files []string) (importer, error) {
	var how importer
	for _, s := range app.Sources() {
		if s.Name == from {
			how.source = &s
		}
	}
	for _, c := range converters() {
		if c.name == from && (how.source == nil || len(files) == 1 && a.recognises(c, files[0])) {
			how.convert = &c
		}
	}
	if how.source == nil && how.convert == nil && from != recordFormat {
		return how, &usageError{
			fmt.Errorf("invalid value %q for --from", from), "the formats are " + sentenceList(importFormats()),
		}
	}
	return how, nil
}

// importResults stores what another program has measured.
func (a *invocation) importResults(ctx context.Context, s bench.Store, what app.Results) error {
	all, notes, err := app.ImportResults(ctx, s, what)
	if all == nil {
		all = []app.ImportedRun{}
	}
	var told []string
	for _, n := range notes {
		if !slices.Contains(told, n.Text) {
			told = append(told, n.Text)
			a.notice("%s", n.Text)
		}
	}
	var wrong *foreign.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &wrong):
		err = &usageError{err, wrong.Hint}
	case errors.As(err, &path):
		err = &usageError{err, "give files or directories with results of " + what.From.Name + ", or - for stdin"}
	}
	if err != nil && len(all) == 0 {
		return err
	}
	return errors.Join(a.printImported(ctx, s, all), err)
}
