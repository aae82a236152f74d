// Package manual renders a tree of commands for readers: as help on a terminal, as
// Markdown and as manual pages. All three show the same groups of flags with the same
// texts and defaults.
package manual

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/text/term"
)

// Columns is how wide help is at most, also where it is not for a terminal.
const Columns = 80

// A Group is some flags of a command, in the order in which help shows them.
type Group struct {
	Title string
	Flags []string // names; those that the command does not have are skipped
}

// A Section is a part of a page that follows the flags, such as the environment.
type Section struct {
	Title string
	Lines []string
}

// A CommandGroup is some commands below one, in the order in which help shows them.
type CommandGroup struct {
	Title    string
	Commands []string // names; those that are not there are skipped
}

// The annotations by which a tree of commands carries what is said about it here.
const (
	groupNote   = "manual.group"
	defaultNote = "manual.default"
	afterNote   = "manual.after."
	orderNote   = "manual.order"
)

// Arrange puts flags of a command into groups. Flags that are in none are shown first, as
// "Flags".
func Arrange(c *cobra.Command, groups ...Group) {
	for i, g := range groups {
		for j, name := range g.Flags {
			if f := c.Flags().Lookup(name); f != nil {
				annotate(f, groupNote, fmt.Sprintf("%02d", i), fmt.Sprintf("%02d", j), g.Title)
			}
		}
	}
}

// SetDefault says what holds without a flag, where the flag itself does not know.
func SetDefault(c *cobra.Command, name, text string) {
	if f := c.Flags().Lookup(name); f != nil {
		annotate(f, defaultNote, text)
	}
}

func annotate(f *pflag.Flag, key string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = values
}

// ArrangeCommands puts the commands below one into groups. Those that are in none are
// shown last, as "Commands".
func ArrangeCommands(c *cobra.Command, groups ...CommandGroup) {
	for _, g := range groups {
		c.AddGroup(&cobra.Group{ID: g.Title, Title: g.Title})
		for i, name := range g.Commands {
			for _, sub := range c.Commands() {
				if sub.Name() == name {
					sub.GroupID = g.Title
					note(sub, orderNote, fmt.Sprintf("%02d", i))
				}
			}
		}
	}
}

// Append adds sections to the page of a command.
func Append(c *cobra.Command, sections ...Section) {
	for i, s := range sections {
		note(c, fmt.Sprintf("%s%02d.%s", afterNote, i, s.Title), strings.Join(s.Lines, "\n"))
	}
}

func note(c *cobra.Command, key, value string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[key] = value
}

// appended are the sections that Append added, in their order.
func appended(c *cobra.Command) (all []Section) {
	var keys []string
	for key := range c.Annotations {
		if strings.HasPrefix(key, afterNote) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		_, title, _ := strings.Cut(strings.TrimPrefix(key, afterNote), ".")
		all = append(all, Section{title, strings.Split(c.Annotations[key], "\n")})
	}
	return all
}

// flagGroup is a group with what is shown of its flags.
type flagGroup struct {
	title string
	flags []flagText
}

// flagText is what is shown of one flag.
type flagText struct {
	short, long string // "-e" or nothing, "--engine"
	value       string // what it takes, such as "names"; empty for a switch
	doc         string // with the default
	order       string
}

// head is a flag as it is typed.
func (f flagText) head() string {
	out := "    "
	if f.short != "" {
		out = f.short + ", "
	}
	return strings.TrimRight(out+f.long+" "+f.value, " ")
}

// globalTitle is the group of the flags that every command has.
const globalTitle = "Global flags"

// groups are the flags of a command as they are shown: its own ones, then those that
// every command has.
func groups(c *cobra.Command) []flagGroup {
	c.InitDefaultHelpFlag()
	byOrder := map[string]*flagGroup{}
	add := func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		order, title := "-1", "Flags"
		text := textOf(f)
		note := f.Annotations[groupNote]
		switch {
		case c.InheritedFlags().Lookup(f.Name) != nil, f.Name == "help", !c.HasParent():
			order, title = "99", globalTitle
		case len(note) == 3:
			order, title, text.order = note[0], note[2], note[1]
		}
		if byOrder[order] == nil {
			byOrder[order] = &flagGroup{title: title}
		}
		byOrder[order].flags = append(byOrder[order].flags, text)
	}
	c.NonInheritedFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	var keys []string
	for key := range byOrder {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var out []flagGroup
	for _, key := range keys {
		slices.SortStableFunc(byOrder[key].flags, func(a, b flagText) int {
			return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.long, b.long))
		})
		out = append(out, *byOrder[key])
	}
	return out
}

func textOf(f *pflag.Flag) flagText {
	value, doc := pflag.UnquoteUsage(f)
	t := flagText{long: "--" + f.Name, value: value, doc: doc}
	if f.Shorthand != "" {
		t.short = "-" + f.Shorthand
	}
	if f.NoOptDefVal != "" && value != "" { // it can be left out
		t.long, t.value = t.long+"[="+value+"]", ""
	}
	switch note := f.Annotations[defaultNote]; {
	case len(note) > 0:
		t.doc += fmt.Sprintf(" (default %s)", note[0])
	case !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue):
		t.doc += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return t
}

// commandGroup is a group of commands.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// subcommands are the commands below one, in groups.
func subcommands(c *cobra.Command) (all []commandGroup) {
	listed := func(title, id string) {
		g := commandGroup{title: title}
		for _, sub := range c.Commands() {
			if (sub.IsAvailableCommand() || sub.Name() == "help") && sub.GroupID == id {
				g.commands = append(g.commands, sub)
			}
		}
		slices.SortStableFunc(g.commands, func(a, b *cobra.Command) int {
			return cmp.Compare(a.Annotations[orderNote], b.Annotations[orderNote])
		})
		if len(g.commands) > 0 {
			all = append(all, g)
		}
	}
	for _, g := range c.Groups() {
		listed(g.Title, g.ID)
	}
	listed("Commands", "")
	return all
}

// usageLines say how a command is called.
func usageLines(c *cobra.Command) (lines []string) {
	if c.Runnable() {
		lines = append(lines, c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		lines = append(lines, c.CommandPath()+" COMMAND")
	}
	return lines
}

// filled is a text whose lines have at most that many columns. A paragraph with a longer
// line is filled anew; of a line that is indented only what is too long goes on below,
// under its last column.
func filled(text string, columns int) (lines []string) {
	var paragraph []string
	flush := func() {
		if slices.ContainsFunc(paragraph, func(line string) bool { return term.Width(line) > columns }) {
			paragraph = term.Wrap(strings.Join(paragraph, " "), columns)
		}
		lines = append(lines, paragraph...)
		paragraph = nil
	}
	text = strings.ReplaceAll(strings.TrimSpace(text), "\t", "    ")
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, " \n")
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		lines = append(lines, hanging(line, columns)...)
	}
	flush()
	return lines
}

// hanging breaks a line of a list or a table.
func hanging(line string, columns int) (lines []string) {
	if term.Width(line) <= columns {
		return []string{line}
	}
	at := len(line) - len(strings.TrimLeft(line, " "))
	if i := strings.LastIndex(line, "  "); i >= 0 && i < columns/2 {
		at = max(at, i+2)
	}
	indent := line[:at]
	for _, part := range term.Wrap(line[at:], columns-at) {
		lines = append(lines, indent+part)
		indent = strings.Repeat(" ", at)
	}
	return lines
}
