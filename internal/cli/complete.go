package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/experiment"
)

// completer proposes what can come next on a command line.
type completer func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeExperiments proposes the built-in experiments, and files.
func completeExperiments(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, b := range experiment.Builtins() {
		out = append(out, cobra.CompletionWithDesc(b.Name, b.Doc))
	}
	return out, cobra.ShellCompDirectiveDefault
}

// completeFixed proposes words.
func completeFixed(words ...string) completer {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeList proposes words for a list with commas: those that the list does not
// have yet.
func completeList(words ...string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		chosen := strings.Split(before, ",")
		var out []cobra.Completion
		for _, w := range words {
			if !slices.Contains(chosen, w) {
				out = append(out, before+w)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag attaches proposals to a flag of a command.
func completeFlag(cmd *cobra.Command, flag string, c completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c); err != nil {
		panic(err) // there is no such flag: a mistake in this package, which every test meets
	}
}
