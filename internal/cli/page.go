package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// pageOptions say what 'tare report' writes.
type pageOptions struct {
	output string // file; empty = a name of tare's own, - = stdout
	figure string // one figure alone; empty = the page
	by     string // how runs are grouped
	open   bool   // in a browser
}

func (a *invocation) reportCommand() *cobra.Command {
	var o pageOptions
	cmd := &cobra.Command{
		Use:   "report [RUN]...",
		Short: "Write a report with pictures, as a page for a browser",
		Long: `Report writes what a stored run says as a page: the first screen, and for each
question every value, the differences with their intervals, and how they went
over the run. It is one file without scripts, which needs no network. Several
RUNs are compared, as by 'tare compare'. The default is the last run.

Without --output the page is called tare-RUN.html, in the current directory.
The name is printed. --figure NAME writes one figure alone, as SVG.`,
		Example: `  tare report last --open
  tare report before-upgrade -o upgrade.html
  tare report last --figure total -o total.svg`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := grouping(o.by); err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"last"}
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.writePage(cmd.Context(), s, args, o) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write to `file`, which must not exist; - prints the page")
	f.StringVar(&o.figure, "figure", "", "write the figure of this `name` alone, as SVG")
	f.StringVar(&o.by, "by", "auto", "how to `group` several runs: auto, host, os, run or label:KEY")
	f.BoolVar(&o.open, "open", false, "show the page in a browser")
	cmd.ValidArgsFunction = a.completeRuns
	completeFlag(cmd, "by", a.completeGrouping)
	return cmd
}

// writePage writes the report of runs, and says where it is.
func (a *invocation) writePage(ctx context.Context, s bench.Store, names []string, o pageOptions) error {
	d, err := a.documentOf(ctx, s, names, o.by)
	if err != nil {
		return err
	}
	write, ending := func(w io.Writer) error { return app.WritePage(w, d) }, ".html"
	if strings.HasSuffix(o.output, ".svg") && o.figure == "" {
		return &usageError{
			errors.New("an SVG file has one figure"),
			"choose it with --figure: " + sentenceList(app.Figures(d)),
		}
	}
	if o.figure != "" {
		write, ending = func(w io.Writer) error { return app.WriteFigure(w, d, o.figure) }, ".svg"
		if err := write(io.Discard); err != nil {
			return &usageError{err, "there are " + sentenceList(app.Figures(d))}
		}
	}
	if o.output == "-" {
		if o.open {
			return &usageError{errors.New("--open needs a file"), "leave out --output -"}
		}
		return write(a.stdout)
	}
	name := cmp.Or(o.output, pageName(d, ending))
	if err := writeNewFile("--output", name, write); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, name)
	if o.open {
		return a.openBrowser(name)
	}
	return nil
}

// documentOf is the report of one run, or the comparison of several.
func (a *invocation) documentOf(
	ctx context.Context, s bench.Store, names []string, by string,
) (*report.Document, error) {
	if len(names) > 1 {
		return a.comparison(ctx, s, names, by)
	}
	r, err := app.OpenSingles(ctx, s, names[0])
	if err != nil {
		return nil, err
	}
	return a.document(r, shortIn(ctx, app.NewShortener(ctx, s)))
}

// pageName is where a page goes if nobody says where.
func pageName(d *report.Document, ending string) string {
	ids := make([]string, 0, len(d.Runs))
	for i := range d.Runs {
		ids = append(ids, d.Runs[i].ID)
		if i == 1 {
			break
		}
	}
	return "tare-" + strings.Join(ids, "-and-") + ending
}

// openBrowser shows a file in the user's browser, and does not wait for it.
func (a *invocation) openBrowser(name string) error {
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	for _, program := range []string{a.env("BROWSER"), "xdg-open", "sensible-browser"} {
		found, err := exec.LookPath(program)
		if program == "" || err != nil {
			continue
		}
		if err := exec.Command(found, path).Start(); err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		return nil
	}
	return &hintError{
		fmt.Errorf("%w: no browser was found", bench.ErrUnsupported), "open " + path + ", or name a program in $BROWSER",
	}
}
