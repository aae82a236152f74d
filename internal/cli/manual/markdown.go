package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Markdown is the page of a command in Markdown, with links to those above and below it.
func Markdown(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", c.CommandPath(), c.Short)
	if c.Long != "" {
		writeMarkdownText(&b, filled(c.Long, Columns))
	}
	fmt.Fprintf(&b, "```\n%s\n```\n\n", strings.Join(usageLines(c), "\n"))
	if c.HasExample() {
		fmt.Fprintf(&b, "## Examples\n\n```\n%s\n```\n\n", c.Example)
	}
	all := groups(c)
	column := headColumn(all)
	for _, g := range all {
		fmt.Fprintf(&b, "## %s\n\n```\n%s```\n\n", g.title, flagLines(g, column))
	}
	for _, s := range appended(c) {
		fmt.Fprintf(&b, "## %s\n\n```\n%s\n```\n\n", s.Title, strings.Join(s.Lines, "\n"))
	}
	for _, g := range subcommands(c) {
		fmt.Fprintf(&b, "## %s\n\n", g.title)
		for _, sub := range g.commands {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "- [%s](%s): %s\n", sub.CommandPath(), markdownName(sub), sub.Short)
			}
		}
		b.WriteString("\n")
	}
	if c.HasParent() {
		fmt.Fprintf(&b, "See also [%s](%s).\n", c.Parent().CommandPath(), markdownName(c.Parent()))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// writeMarkdownText writes paragraphs as they are, and what is indented as a block of code.
func writeMarkdownText(b *strings.Builder, lines []string) {
	code := false
	for i, line := range lines {
		indented := strings.HasPrefix(line, " ")
		switch {
		case indented && !code:
			b.WriteString("```\n")
			code = true
		case !indented && code && !(line == "" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ")):
			b.WriteString("```\n")
			code = false
		}
		b.WriteString(line + "\n")
	}
	if code {
		b.WriteString("```\n")
	}
	b.WriteString("\n")
}

func markdownName(c *cobra.Command) string {
	return strings.ReplaceAll(c.CommandPath(), " ", "_") + ".md"
}

// WriteMarkdown writes the page of every command of a tree into a directory.
func WriteMarkdown(root *cobra.Command, dir string) error {
	return writePages(root, dir, func(c *cobra.Command) (name, text string) { return markdownName(c), Markdown(c) })
}

// WriteMan writes the manual page of every command of a tree into a directory.
func WriteMan(root *cobra.Command, dir, version string) error {
	return writePages(root, dir, func(c *cobra.Command) (name, text string) {
		return manName(c) + ".1", Man(c, cmp.Or(version, "unknown"))
	})
}

func writePages(c *cobra.Command, dir string, page func(*cobra.Command) (name, text string)) error {
	name, text := page(c)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := writePages(sub, dir, page); err != nil {
			return err
		}
	}
	return nil
}
