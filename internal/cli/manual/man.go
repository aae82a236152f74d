package manual

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manColumns is how wide lines are that a formatter leaves as they are: the text of a page
// is indented.
const manColumns = Columns - 8

// Man is the manual page of a command, in section 1, as man(7) defines it.
func Man(c *cobra.Command, version string) string {
	var b strings.Builder
	name := manName(c)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q %q\n", strings.ToUpper(name), "tare "+version, "tare manual")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", name, roff(c.Short))
	b.WriteString(".SH SYNOPSIS\n.nf\n")
	for _, line := range usageLines(c) {
		fmt.Fprintf(&b, "%s\n", roff(line))
	}
	b.WriteString(".fi\n.SH DESCRIPTION\n")
	writeRoffText(&b, filled(cmp.Or(c.Long, c.Short), manColumns))
	for _, g := range subcommands(c) {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(g.title)))
		for _, sub := range g.commands {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.CommandPath()), roff(sub.Short))
		}
	}
	for _, g := range groups(c) {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(g.title)))
		for _, f := range g.flags {
			b.WriteString(".TP\n")
			if f.short != "" {
				fmt.Fprintf(&b, "\\fB%s\\fR, ", roff(f.short))
			}
			fmt.Fprintf(&b, "\\fB%s\\fR", roff(f.long))
			if f.value != "" {
				fmt.Fprintf(&b, " \\fI%s\\fR", roff(f.value))
			}
			fmt.Fprintf(&b, "\n%s\n", roff(f.doc))
		}
	}
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roffLines(strings.Split(c.Example, "\n")))
	}
	for _, s := range appended(c) {
		fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", roff(strings.ToUpper(s.Title)), roffLines(narrowed(s.Lines)))
	}
	writeSeeAlso(&b, c)
	return b.String()
}

// writeSeeAlso names the pages above and below a command's.
func writeSeeAlso(b *strings.Builder, c *cobra.Command) {
	var pages []string
	if c.HasParent() {
		pages = append(pages, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, manName(sub))
		}
	}
	if len(pages) == 0 {
		return
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, p := range pages {
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", roff(p), end)
	}
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// writeRoffText writes paragraphs, and what is indented as it is.
func writeRoffText(b *strings.Builder, lines []string) {
	verbatim := false
	for _, line := range lines {
		indented := strings.HasPrefix(line, " ")
		switch {
		case line == "":
			if verbatim {
				b.WriteString(".fi\n")
				verbatim = false
			}
			b.WriteString(".PP\n")
			continue
		case indented && !verbatim:
			b.WriteString(".nf\n")
			verbatim = true
		case !indented && verbatim:
			b.WriteString(".fi\n")
			verbatim = false
		}
		b.WriteString(roff(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

// narrowed are lines of a list or a table, which fit a page.
func narrowed(lines []string) (out []string) {
	for _, line := range lines {
		out = append(out, hanging(line, manColumns)...)
	}
	return out
}

// roffLines are lines as they are.
func roffLines(lines []string) string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = roff(line)
	}
	return strings.Join(out, "\n")
}

// roff is a line of text in which nothing means anything to a formatter.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
