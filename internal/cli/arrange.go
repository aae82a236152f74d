package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/cli/manual"
	"github.com/tare-bench/tare/internal/experiment"
)

// flagGroups are the groups in which help shows the flags of commands that have many:
// 'tare run', 'tare plan' and 'tare gate'.
func flagGroups() []manual.Group {
	return []manual.Group{
		{
			Title: "What to measure", Flags: []string{
				"engine", "image", "network", "storage", "concurrency", "param", "factor", "baseline",
			},
		},
		{Title: "How long", Flags: []string{"budget", "blocks", "warmup", "washout", "trial-timeout", "operation-timeout"}},
		{
			Title: "Statistics",
			Flags: []string{"precision", "smallest", "primary", "no-control", "seed", "syscalls", "timeline", "interleave"},
		},
		{Title: "Judgement", Flags: []string{"strict", "plant", "junit", "markdown", "gitlab", "github"}},
		{Title: "Output", Flags: []string{"all", "format", "html", "yaml", "output", "output-dir", "name", "label"}},
		{Title: "Other machines", Flags: []string{"remote", "on"}},
		{Title: "Short forms of --param", Flags: []string{"count", "pings", "size", "tool"}},
	}
}

// grouped reports whether the flags of a command are shown in groups.
func grouped(c *cobra.Command) bool {
	return slices.Contains([]string{"run", "plan", "gate"}, c.Name())
}

// flagDefaults say what holds where an experiment decides, by flag.
func flagDefaults() map[string]string {
	d := experiment.Defaults()
	from := func(key string) string { return "the experiment's, else " + d[key] }
	return map[string]string{
		"engine":            "$" + engineVariable + ", else the experiment's",
		"image":             "the experiment's, else tare's own",
		"network":           "the experiment's",
		"storage":           "the experiment's",
		"concurrency":       "the experiment's",
		"baseline":          "the experiment's, else native, else the first",
		"budget":            "$" + budgetVariable + ", else " + from("budget"),
		"blocks":            from("blocks"),
		"warmup":            from("warmup"),
		"washout":           from("washout"),
		"interleave":        from("interleave"),
		"trial-timeout":     from("timeouts.trial"),
		"operation-timeout": from("timeouts.operation"),
		"precision":         from("precision"),
		"smallest":          from("smallest"),
		"primary":           "the experiment's, else those of the workload",
		"seed":              "the experiment's, else drawn anew",
	}
}

// commandGroups are the groups in which help shows the commands.
func commandGroups() []manual.CommandGroup {
	return []manual.CommandGroup{
		{Title: "Measure", Commands: []string{"run", "explain", "plan", "resume", "gate"}},
		{
			Title:    "Results",
			Commands: []string{"show", "report", "list", "compare", "note", "rm", "export", "import", "check"},
		},
		{Title: "Images", Commands: []string{"image", "pack"}},
		{Title: "Machines", Commands: []string{"fleet", "doctor", "clean", "agent"}},
		{Title: "Reference", Commands: []string{"metrics", "params", "help", "completion", "version"}},
	}
}

// environment are the variables that tare reads.
func environment() []string {
	return []string{
		fmt.Sprintf("%-13s  engines to compare, as --engine of 'tare run' and 'tare plan' has them", engineVariable),
		fmt.Sprintf("%-13s  time limit, as --budget of 'tare run' and 'tare plan' has it", budgetVariable),
		"TARE_STORE     file of stored runs, as --store",
		"TARE_STATE     directory for temporary run data, as --state",
		fmt.Sprintf("%-13s  program that connects to other machines, in place of ssh", sshVariable),
		"XDG_DATA_HOME, XDG_STATE_HOME, HOME  where the store and that directory are by default",
		"NO_COLOR       any value turns colour off",
		"COLUMNS        width of text that is not for a terminal",
	}
}

// arrange gives a tree of commands its order: groups of commands and of flags, the
// defaults that flags do not know, and the look of help.
func arrange(root *cobra.Command) {
	root.InitDefaultHelpCmd() // cobra adds it only before it runs a command
	manual.ArrangeCommands(root, commandGroups()...)
	for _, c := range root.Commands() {
		if !grouped(c) {
			continue
		}
		manual.Arrange(c, flagGroups()...)
		for flag, text := range flagDefaults() {
			manual.SetDefault(c, flag, text)
		}
	}
	title, codes, _ := strings.Cut(exitCodes, ":\n")
	manual.Append(root, manual.Section{Title: "Environment", Lines: environment()},
		manual.Section{Title: title, Lines: unindented(codes)})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { c.Print(manual.Help(c)) })
	root.SetUsageFunc(func(c *cobra.Command) error { c.Print(manual.Usage(c)); return nil })
}

// unindented are the lines of a text without the two blanks before each.
func unindented(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
	}
	return lines
}
