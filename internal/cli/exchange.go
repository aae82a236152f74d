package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/record"
)

func (a *app) exportCommand() *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a stored run, every value of it",
		Long: `Export writes a run as it is stored: every sample of every trial, failures
included. The format "record" (JSON lines, see docs/format.md) can be imported
again; "json" is the same as one document; "gobench" is what benchstat reads.
RUN is an ID, a unique part of one, or "last".`,
		Args: exactlyOne("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := exporter(format)
			if err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				r, err := openRun(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				return a.toFile(output, func(w io.Writer) error { return write(w, r) })
			})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "record", "`format`: record, json, gobench")
	cmd.Flags().StringVarP(&output, "output", "o", "-", "`file` to write; - for stdout")
	cmd.ValidArgsFunction = a.completeRuns
	completeFlag(cmd, "format", completeFixed("record", "json", "gobench"))
	return cmd
}

// exporter returns what writes a run in a format.
func exporter(format string) (func(io.Writer, *bench.Run) error, error) {
	switch format {
	case "record":
		return record.Write, nil
	case "json":
		return record.WriteDocument, nil
	case "gobench":
		return writeGobench, nil
	default:
		return nil, &usageError{fmt.Errorf("--format %q", format), "the formats are record, json and gobench"}
	}
}

// toFile writes to stdout or to a file, which it removes again if f fails.
func (a *app) toFile(name string, f func(io.Writer) error) error {
	if name == "-" {
		return f(a.stdout)
	}
	file, err := createFile(name)
	if err != nil {
		return err
	}
	if err := errors.Join(f(&result{Writer: file, what: "--output"}), file.Close()); err != nil {
		return errors.Join(err, removeFile(name))
	}
	return nil
}

func (a *app) importCommand() *cobra.Command {
	var from, output string
	cmd := &cobra.Command{
		Use:   "import [FILE...]",
		Short: "Store runs that were exported elsewhere",
		Long: `Import reads the format "record" from files, or from stdin where there are none or the
file is -, and stores every run in it. A run that is stored already is left as it is.

With --from bucketbench it reads a file for that benchmark and writes the tare
experiment that does the same work. It says what does not mean the same, and
stores nothing.`,
		Example: `  ssh server tare run -o - | tare import -
  tare import --from bucketbench old.yaml -o new.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkImport(cmd, from, args); err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"-"}
			}
			if from == "bucketbench" {
				return a.importBucketbench(args[0], output)
			}
			return a.withStore(cmd.Context(), func(s bench.Store) error { return a.importFiles(cmd.Context(), s, args) })
		},
	}
	cmd.Flags().StringVar(&from, "from", "record", "`format`: record, bucketbench")
	cmd.Flags().StringVarP(&output, "output", "o", "-", "`file` to write an experiment to; - for stdout")
	completeFlag(cmd, "from", completeFixed("record", "bucketbench"))
	return cmd
}

// checkImport refuses what a format has no meaning for.
func checkImport(cmd *cobra.Command, from string, args []string) error {
	switch {
	case from != "record" && from != "bucketbench":
		return &usageError{fmt.Errorf("--from %q", from), "the formats are record and bucketbench"}
	case from == "record" && cmd.Flags().Changed("output"):
		return &usageError{errors.New("--output is for experiments"), "runs are stored: --store FILE says where; experiments come --from bucketbench"}
	case from == "bucketbench":
		return atMostOne("a file")(cmd, args)
	}
	return nil
}

func (a *app) importFiles(ctx context.Context, s bench.Store, names []string) error {
	all := []imported{}
	for _, name := range names {
		if err := a.importFile(ctx, s, name, &all); err != nil {
			return errors.Join(a.printImported(all), err)
		}
	}
	return a.printImported(all)
}

// imported is one run that an import read.
type imported struct {
	ID      string `json:"id"`
	Samples int    `json:"samples"`
	Status  string `json:"status"` // "imported", "incomplete" or "already stored"
}

func (a *app) importFile(ctx context.Context, s bench.Store, name string, all *[]imported) error {
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
	whole := bufio.NewReader(in)
	begin, _ := whole.Peek(len(documentStart) * 2) // what is wrong with it, reading will say
	for r, err := range record.Read(whole) {
		switch {
		case err != nil && isDocument(begin):
			return &hintError{
				fmt.Errorf("%s: this is the JSON document that 'tare export -f json' writes, which cannot be imported", name),
				"export the run with -f record, and import that",
			}
		case err != nil:
			return &hintError{fmt.Errorf("%s: %w", name, err), "import reads what 'tare export' or 'tare run -o' wrote"}
		}
		status, err := importRun(ctx, s, r)
		if err != nil {
			return fmt.Errorf("%s: run %s: %w", name, r.Header.ID, err)
		}
		*all = append(*all, imported{r.Header.ID, len(r.Samples), status})
	}
	return nil
}

// documentStart is how a run as one document begins, blanks left out.
const documentStart = `{"tare":"run",`

// isDocument reports whether a file begins like one.
func isDocument(begin []byte) bool {
	return strings.HasPrefix(strings.Join(strings.Fields(string(begin)), ""), documentStart)
}

// importRun stores a run whole, or as far as it goes.
func importRun(ctx context.Context, s bench.Store, r *bench.Run) (status string, err error) {
	switch err := record.Copy(ctx, s, r); {
	case errors.Is(err, fs.ErrExist):
		return "already stored", nil
	case err != nil:
		return "", err
	case r.End == nil:
		return "incomplete", nil
	default:
		return "imported", nil
	}
}

func (a *app) printImported(all []imported) error {
	if a.global.JSON {
		return a.printJSON(all)
	}
	for _, r := range all {
		fmt.Fprintf(a.stdout, "%s: %s, %d trials\n", r.ID, r.Status, r.Samples)
	}
	return nil
}
