package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// completeRuns proposes stored runs: by their names, or else the short forms of their IDs,
// and by whole IDs once one is being typed. A store that cannot be read has none to propose.
func (a *invocation) completeRuns(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	_ = a.withRuns(cmd.Context(), func(s bench.Store) error {
		short := app.NewShortener(cmd.Context(), s)
		for r, err := range s.Runs(cmd.Context()) {
			if err != nil {
				return err
			}
			called := calls(&r.Header, short.Short(cmd.Context(), r.Header.ID))
			if slices.ContainsFunc(called, func(word string) bool { return slices.Contains(args, word) }) {
				continue
			}
			if i := slices.IndexFunc(called, func(word string) bool { return strings.HasPrefix(word, typed) }); i >= 0 {
				out = append(out, cobra.CompletionWithDesc(called[i], plain.Line(about(&r.Header))))
			}
		}
		return nil
	})
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// calls lists the words that mean a run: its name, the short form of its ID, and the ID.
func calls(h *bench.Header, short string) []string {
	if h.Name == "" {
		return []string{short, h.ID}
	}
	return []string{h.Name, short, h.ID}
}

// about describes a run by its experiment and the time when it began. It may have hidden characters.
func about(h *bench.Header) string {
	return h.Plan.Name + ", " + h.Began.Local().Format("2006-01-02 15:04")
}

// completeFirstRun proposes stored runs for the first argument alone.
func (a *invocation) completeFirstRun(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeRuns(cmd, args, typed)
}

// storedWords are the words that f finds in the headers of stored runs, those of newer runs first.
// A word with hidden characters, such as the end of a line, is not proposed: a header that was
// imported can have any text.
func (a *invocation) storedWords(cmd *cobra.Command, f func(*bench.Header) []string) (words []string) {
	_ = a.withRuns(cmd.Context(), func(s bench.Store) error {
		for r, err := range s.Runs(cmd.Context()) {
			if err != nil {
				return err
			}
			for _, word := range f(&r.Header) {
				if word != "" && !slices.Contains(words, word) && !strings.ContainsFunc(word, plain.IsHidden) {
					words = append(words, word)
				}
			}
		}
		return nil
	})
	return words
}

// completeStored proposes words of stored runs.
func (a *invocation) completeStored(f func(*bench.Header) []string) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.storedWords(cmd, f), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeEngines proposes engines of stored runs, with commas.
func (a *invocation) completeEngines(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := a.storedWords(cmd, func(h *bench.Header) (names []string) {
		for _, c := range h.Plan.Cells {
			names = append(names, c.Engine)
		}
		return names
	})
	return completeList(words...)(cmd, args, typed)
}

// completeLabels proposes the labels of stored runs: their keys, and then the values of one.
func (a *invocation) completeLabels(
	cmd *cobra.Command, _ []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	key, _, chosen := strings.Cut(typed, "=")
	words := a.storedWords(cmd, func(h *bench.Header) (words []string) {
		for _, l := range h.Plan.Labels {
			switch {
			case !chosen:
				words = append(words, l.Key+"=")
			case l.Key == key:
				words = append(words, l.Key+"="+l.Value)
			}
		}
		return words
	})
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeGrouping proposes what runs can be grouped by.
func (a *invocation) completeGrouping(
	cmd *cobra.Command, _ []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	keys := a.storedWords(cmd, func(h *bench.Header) (words []string) {
		for _, l := range h.Plan.Labels {
			words = append(words, "label:"+l.Key)
		}
		return words
	})
	return append([]string{"auto", "host", "os", "run"}, keys...), cobra.ShellCompDirectiveNoFileComp
}
