package manual

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/text/term"
)

// Help is what a command says about itself on a terminal. No line of it has more than
// Columns columns, unless a single word or an example has.
func Help(c *cobra.Command) string {
	var b strings.Builder
	for _, line := range filled(cmp.Or(c.Long, c.Short), Columns) {
		fmt.Fprintln(&b, line)
	}
	b.WriteString("\n" + Usage(c))
	return b.String()
}

// Usage is the part of Help that says how a command is called.
func Usage(c *cobra.Command) string {
	var b strings.Builder
	if c.HasParent() {
		fmt.Fprintf(&b, "Usage:\n  %s\n", strings.Join(usageLines(c), "\n  "))
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	for i, g := range subcommands(c) {
		if c.HasParent() || i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s:\n", g.title)
		widest := 0
		for _, all := range subcommands(c) {
			for _, sub := range all.commands {
				widest = max(widest, len(sub.Name()))
			}
		}
		for _, sub := range g.commands {
			term.WriteHanging(&b, "  "+term.Pad(sub.Name(), widest+term.Gap, false), 2+widest+term.Gap, sub.Short, Columns)
		}
	}
	writeFlags(&b, groups(c))
	for _, s := range appended(c) {
		fmt.Fprintf(&b, "\n%s:\n", s.Title)
		for _, line := range s.Lines {
			for _, part := range hanging("  "+line, Columns) {
				fmt.Fprintln(&b, part)
			}
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more about a command.\n", c.CommandPath())
	}
	return b.String()
}

// mostHead is how wide the column of the flags is at most.
const mostHead = 34

func writeFlags(b *strings.Builder, all []flagGroup) {
	column := headColumn(all)
	for _, g := range all {
		fmt.Fprintf(b, "\n%s:\n", g.title)
		b.WriteString(flagLines(g, column))
	}
}

// headColumn is the column in which what is said about flags begins.
func headColumn(all []flagGroup) int {
	widest := 0
	for _, g := range all {
		for _, f := range g.flags {
			widest = max(widest, len("  "+f.head()))
		}
	}
	return min(widest, mostHead) + term.Gap
}

// flagLines are the flags of a group, a description beside each.
func flagLines(g flagGroup, column int) string {
	var b strings.Builder
	for _, f := range g.flags {
		head := "  " + f.head()
		if len(head)+term.Gap > column {
			fmt.Fprintln(&b, head)
			head = ""
		}
		term.WriteHanging(&b, term.Pad(head, column, false), column, f.doc, Columns)
	}
	return b.String()
}
