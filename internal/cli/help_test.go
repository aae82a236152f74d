package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/text/term"
)

// TestHelpFits checks that every line of help fits on a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	pages := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" { // its texts are cobra's
			return
		}
		pages++
		cmd.InitDefaultHelpFlag()
		for line := range strings.Lines(cmd.Short + "\n" + cmd.Long + "\n" + cmd.UsageString()) {
			if line = strings.TrimRight(line, "\n"); term.Width(line) > helpWidth {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), term.Width(line), line)
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(Command())
	if pages < 15 {
		t.Errorf("only %d commands were checked", pages)
	}
}
