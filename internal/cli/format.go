package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/experiment"
)

// reports reports whether a command prints a report: then it has a flag for each format
// that has one.
func reports(c *cobra.Command) bool {
	return !slices.ContainsFunc(formats(), func(f app.Format) bool { return c.Flags().Lookup(f.Name) == nil })
}

// addFormat gives every command that prints a report the flag --format, which names what
// --json, --csv and --markdown choose too.
func addFormat(root *cobra.Command) {
	for _, c := range root.Commands() {
		if reports(c) {
			c.Flags().String("format", "text", "`name` of the report's format: "+sentenceList(formatNames()))
			completeFlag(c, "format", completeFixed(formatNames()...))
		}
	}
}

func formatNames() (all []string) {
	for _, f := range app.Formats() {
		all = append(all, f.Name)
	}
	return all
}

// chooseFormat sets the flag of the format that --format names.
func chooseFormat(c *cobra.Command) error {
	f := c.Flags().Lookup("format")
	if f == nil || !f.Changed || !reports(c) {
		return nil
	}
	chosen, all := f.Value.String(), formatNames()
	if !slices.Contains(all, chosen) {
		hint := "the formats are " + sentenceList(all)
		if near, ok := experiment.Nearest(chosen, all); ok {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
		}
		return &usageError{fmt.Errorf("invalid value %q for --format", chosen), hint}
	}
	for _, name := range all {
		if other := c.Flags().Lookup(name); name != chosen && other != nil && other.Value.String() == "true" {
			return &usageError{fmt.Errorf("--format %s and --%s are two formats", chosen, name), "choose one of them"}
		}
	}
	if chosen == all[0] {
		return nil // what there is without a flag
	}
	return c.Flags().Set(chosen, "true")
}

// checkLoudness refuses to be quiet and verbose at once.
func (a *invocation) checkLoudness() error {
	if a.global.Quiet && a.global.Verbose {
		return &usageError{errors.New("--quiet and --verbose contradict each other"), "choose one of them"}
	}
	return nil
}
