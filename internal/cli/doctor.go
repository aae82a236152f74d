package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/host"
	"github.com/tare-bench/tare/internal/plain"
	"github.com/tare-bench/tare/internal/term"
	"github.com/tare-bench/tare/internal/unit"
)

// watchTime is how long doctor looks for what only shows over time.
const watchTime = time.Second

func (a *app) doctorCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say which engines can be used here, and what disturbs measurements",
		Long: `Doctor asks every engine whether it can be used, and why not, and looks for what
on this machine disturbs measurements, each with advice. It changes nothing.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "" {
				return a.farDoctor(cmd.Context(), at)
			}
			return a.doctor(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&at, "remote", "", "ask about another machine, where 'tare agent serve' runs: `HOST[:PORT]`")
	a.addTokenFlag(cmd.Flags())
	return cmd
}

// diagnosis is what doctor found, as --json prints it.
type diagnosis struct {
	Host     bench.HostFacts `json:"host"`
	Engines  []engineState   `json:"engines"`
	Findings []host.Finding  `json:"findings"`
	Dead     []string        `json:"dead_runs"`
	Remote   string          `json:"remote,omitempty"` // the address of the machine, where it is another one
}

type engineState struct {
	Name   string            `json:"name"`
	Usable bool              `json:"usable"`
	Sure   bool              `json:"sure"` // false where it could not be found out
	Why    string            `json:"why,omitempty"`
	Info   *bench.EngineInfo `json:"info,omitempty"`
}

func (a *app) doctor(ctx context.Context) error {
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	d := diagnosis{Host: host.Facts(fsRoot)}
	all, err := probe(ctx, a.newSite("doctor", filepath.Join(state, "runs", "doctor")), builtinInstances())
	if err != nil {
		return err
	}
	for _, e := range all {
		d.Engines = append(d.Engines, stateOf(e))
	}
	d.Findings = host.Examine(ctx, host.Examination{Root: fsRoot, Facts: d.Host, Dirs: []string{existing(state)}, Watch: watchTime})
	d.Findings = append(d.Findings, callsFinding())
	dead, err := deadRuns(state)
	release(dead)
	half, halfErr := halfGone(state)
	release(half)
	if err := errors.Join(err, halfErr); err != nil {
		return err
	}
	d.Dead = append([]string{}, ids(slices.Concat(dead, half))...) // never null as JSON
	return a.printDiagnosis(d)
}

// farDoctor says what another machine tells about itself.
func (a *app) farDoctor(ctx context.Context, at string) error {
	there, err := a.links.to(at).Machine(ctx)
	if err != nil {
		return err
	}
	d := diagnosis{Host: there.Host, Remote: at, Findings: []host.Finding{}, Dead: []string{}}
	for _, w := range there.Warnings {
		d.Findings = append(d.Findings, host.Finding{Name: strings.TrimPrefix(w.Code, "host-"), Status: host.Disturb, Text: w.Text, Hint: w.Hint})
	}
	lent := slices.DeleteFunc(remoteInstances(at, there.Engines), func(i instance) bool { return !slices.Contains(there.Engines, i.Name) })
	all, err := probe(ctx, a.newSite("doctor", ""), lent)
	if err != nil {
		return err
	}
	for _, e := range all {
		d.Engines = append(d.Engines, stateOf(e))
	}
	return a.printDiagnosis(d)
}

func (a *app) printDiagnosis(d diagnosis) error {
	if a.global.JSON {
		return a.printJSON(d)
	}
	return a.writeDiagnosis(d)
}

func stateOf(e probed) engineState {
	s := engineState{Name: e.instance.Name, Usable: e.err == nil, Sure: e.err == nil || errors.Is(e.err, bench.ErrUnsupported)}
	if e.err != nil {
		s.Why = e.err.Error()
		return s
	}
	s.Info = &e.info
	return s
}

// existing returns the nearest directory above path that exists.
func existing(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

func (a *app) writeDiagnosis(d diagnosis) error {
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
		case e.Sure:
			row.mark, row.text = paint(dim, "–"), e.Why
		default:
			row.mark, row.text = paint(yellow, "?"), e.Why
		}
		rows = append(rows, row)
	}
	writeDiagnosed(a.stdout, rows, width)
	fmt.Fprintln(a.stdout, "\nMachine"+where(d))
	rows = nil
	marks := map[host.Status]string{host.Good: paint(green, "✓"), host.Note: paint(dim, "·"), host.Disturb: paint(yellow, "!")}
	for _, f := range d.Findings {
		rows = append(rows, diagnosed{marks[f.Status], f.Name, f.Text, f.Hint})
	}
	writeDiagnosed(a.stdout, rows, width)
	if len(d.Dead) > 0 {
		fmt.Fprintf(a.stdout, "\nDead runs left something behind: %s\n  → tare clean\n", strings.Join(d.Dead, ", "))
	}
	return nil
}

// where names another machine, and what disturbs measurements there can be seen.
func where(d diagnosis) string {
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

// versionLine is an engine's version with what else matters about it.
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
