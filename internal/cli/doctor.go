package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

func (a *invocation) doctorCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show which engines work here and what disturbs measurements",
		Long: `Doctor starts a container with every engine, and explains why an engine does not
work. It also looks for what disturbs measurements on this machine, and gives
advice. It removes everything that it made.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "" {
				return a.remoteDoctor(cmd.Context(), at)
			}
			return a.doctor(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&at, "remote", "", "examine another machine, through ssh: `[USER@]HOST`")
	return cmd
}

func (a *invocation) doctor(ctx context.Context) error {
	t, err := a.newApp()
	if err != nil {
		return err
	}
	d, err := t.Diagnose(ctx)
	if d == nil {
		return err
	}
	if d.NotStartedWhy != "" {
		a.notice("engines were only asked for their versions, without starting a container: %s", d.NotStartedWhy)
	}
	return errors.Join(a.printDiagnosis(d), err)
}

// remoteDoctor shows what another machine says about itself.
func (a *invocation) remoteDoctor(ctx context.Context, at string) error {
	d, err := a.tare.DiagnoseAt(ctx, at)
	if err != nil {
		return err
	}
	return a.printDiagnosis(d)
}

func (a *invocation) printDiagnosis(d *app.Diagnosis) error {
	if a.global.JSON {
		return a.printJSON(d)
	}
	return a.writeDiagnosis(d)
}

func (a *invocation) writeDiagnosis(d *app.Diagnosis) error {
	paint, err := a.painter()
	if err != nil {
		return err
	}
	width := a.lineWidth()
	fmt.Fprintln(a.stdout, "Engines")
	var rows []diagnosed
	for _, e := range d.Engines {
		row := diagnosed{paint(green, "✓"), e.Name, "", ""}
		switch {
		case e.Usable:
			row.text = versionLine(*e.Info)
		case e.Known:
			row.mark, row.text = paint(dim, "–"), e.Reason
		default:
			row.mark, row.text = paint(yellow, "?"), e.Reason
		}
		rows = append(rows, row)
	}
	writeDiagnosed(a.stdout, rows, width)
	fmt.Fprintln(a.stdout, "\nMachine"+doctorScope(d))
	rows = nil
	marks := map[host.Status]string{
		host.Good: paint(green, "✓"), host.Note: paint(dim, "·"), host.Disturb: paint(yellow, "!"),
	}
	for _, f := range d.Findings {
		rows = append(rows, diagnosed{marks[f.Status], f.Name, f.Text, f.Hint})
	}
	writeDiagnosed(a.stdout, rows, width)
	if len(d.DeadRuns) > 0 {
		fmt.Fprintf(a.stdout, "\nKilled runs left something behind: %s\n  → tare clean\n", strings.Join(d.DeadRuns, ", "))
	}
	return nil
}

// doctorScope names another machine, and says if nothing disturbs measurements there.
func doctorScope(d *app.Diagnosis) string {
	switch {
	case d.Remote == "":
		return ""
	case len(d.Findings) == 0:
		return fmt.Sprintf(" %s at %s: nothing disturbs measurements", plain.Line(d.Host.Hostname), plain.Line(d.Remote))
	default:
		return fmt.Sprintf(" %s at %s", plain.Line(d.Host.Hostname), plain.Line(d.Remote))
	}
}

// diagnosed is one line of what doctor found: a mark of one column, what it is
// about, and what to do.
type diagnosed struct{ mark, name, text, hint string }

// writeDiagnosed lines up what was found.
func writeDiagnosed(w io.Writer, rows []diagnosed, width int) {
	widest := 0
	for _, r := range rows {
		widest = max(widest, term.Width(plain.Line(r.name)))
	}
	hang := 4 + widest + term.Gap // two blanks, the mark, one blank
	for _, r := range rows {
		term.WriteHanging(w, "  "+r.mark+" "+term.Pad(plain.Line(r.name), widest+term.Gap, false), hang, r.text, width)
		if r.hint != "" {
			term.WriteWrapped(w, strings.Repeat(" ", hang)+"→ ", r.hint, width)
		}
	}
}

// versionLine is an engine's version with other facts that matter.
func versionLine(i bench.EngineInfo) string {
	line := i.Version
	if i.Away != nil {
		line = strings.TrimPrefix(line+", "+unit.FormatDuration(i.Away.RoundTrip)+" away", ", ")
	}
	for _, f := range i.Facts {
		if line != "" {
			line += ", "
		}
		line += f.Key + " " + f.Value
	}
	return line
}
