package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/cli/manual"
	"github.com/tare-bench/tare/internal/text/term"
)

// everyCommand are the commands that people see.
func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && c.Name() != "completion" { // whose texts are cobra's
			all = append(all, everyCommand(sub)...)
		}
	}
	return all
}

// TestHelpFits checks that no line of help is wider than a terminal.
func TestHelpFits(t *testing.T) {
	for _, c := range everyCommand(Command()) {
		for line := range strings.Lines(manual.Help(c)) {
			if line = strings.TrimRight(line, "\n"); term.Width(line) > manual.Columns {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), term.Width(line), line)
			}
		}
	}
}

// TestGroups checks that what is new gets a place.
func TestGroups(t *testing.T) {
	in := map[string]int{}
	for _, g := range flagGroups() {
		for _, name := range g.Flags {
			in[name]++
		}
	}
	root := Command()
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.GroupID == "" {
			t.Errorf("tare %s is in no group: see commandGroups", c.Name())
		}
		if !grouped(c) {
			continue
		}
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if in[f.Name] != 1 && f.Name != "help" {
				t.Errorf("tare %s: --%s is in %d groups: see flagGroups", c.Name(), f.Name, in[f.Name])
			}
		})
	}
}

// TestDefaults checks that there is a flag for every default that help shows.
func TestDefaults(t *testing.T) {
	run, _, err := Command().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	for name := range flagDefaults() {
		if run.Flags().Lookup(name) == nil {
			t.Errorf("tare run has no flag --%s", name)
		}
	}
	if help := manual.Help(run); !strings.Contains(strings.Join(strings.Fields(help), " "), "(default $TARE_BUDGET, "+
		"else the experiment's, else 2m)") {
		t.Errorf("help does not show the default of --budget:\n%s", help)
	}
}

// TestToolWords checks that completion knows every program that a workload can use.
func TestToolWords(t *testing.T) {
	for _, w := range app.Workloads() {
		for _, p := range w.Params() {
			if p.Name == "tool" && len(valuesOf(p)) == 0 {
				t.Errorf("no program is proposed for --tool of %s", w.Name())
			}
		}
	}
}
