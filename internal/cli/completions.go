package cli

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/image/pack"
)

// addCompletions has 'tare run' and 'tare plan' propose the values of their flags. Nothing
// is probed and no engine is asked: a shell waits for it.
func addCompletions(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch {
		case grouped(c):
			completeFlag(c, "network", completeList(experiment.Networks()...))
			completeFlag(c, "storage", completeList(experiment.Storages()...))
			completeFlag(c, "image", completeListOf(imageForms))
			completeFlag(c, "primary", completeListOf(metricWords))
			completeFlag(c, "smallest", completeListOf(perMetric("auto", "1%")))
			completeFlag(c, "precision", completeListOf(perMetric("off", "3%")))
			completeFlag(c, "param", completeParams)
			completeFlag(c, "factor", completeFactors)
			completeFlag(c, "tool", completeTools)
			completeFlag(c, "baseline", completeListOf(baselines))
			completeFlag(c, "budget", completeFixed("30s", "1m", "5m", "20m", "off"))
			c.ValidArgsFunction = completeExperimentAndImages
		case c.Name() == "image":
			completeFlag(c, "engine", completeFixed(app.ImageLoaders()...))
			c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return imageForms(nil, nil), cobra.ShellCompDirectiveNoSpace
			}
		}
	}
}

// proposer returns words for a list, by what was typed before.
type proposer func(c *cobra.Command, args []string) []string

// completeListOf proposes words of a list with commas. A word that wants more after it,
// such as "NAME=", gets no blank.
func completeListOf(words proposer) completer {
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, directive := completeList(words(c, args)...)(c, args, typed)
		return all, directive | noSpace(all)
	}
}

// noSpace keeps the shell from ending a word that is not whole.
func noSpace(all []cobra.Completion) cobra.ShellCompDirective {
	if slices.ContainsFunc(all, func(w string) bool {
		return strings.HasSuffix(w, "=") || strings.HasSuffix(w, ":") || strings.HasSuffix(w, "/")
	}) {
		return cobra.ShellCompDirectiveNoSpace
	}
	return 0
}

// completeWorkloads proposes the names of workloads, experiments and some more words.
func completeWorkloads(more ...string) completer {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out := slices.Clone(more)
		known := map[string]bool{}
		for _, w := range app.WorkloadsByName() {
			out = append(out, cobra.CompletionWithDesc(w.Name(), w.Doc()))
			known[w.Name()] = true
		}
		for _, b := range experiment.Builtins() {
			if !known[b.Name] {
				out = append(out, cobra.CompletionWithDesc(b.Name, b.Doc))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeExperimentAndImages proposes experiments, and after the one of images those.
func completeExperimentAndImages(
	c *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && args[0] == app.ImageWorkload() {
		return imageForms(c, args), cobra.ShellCompDirectiveNoSpace
	}
	return completeExperiments(c, args, typed)
}

// imageForms are the ways to name an image, and the programs of this host that have a
// recipe.
func imageForms(*cobra.Command, []string) []string {
	out := []string{"agent", "docker://", "oci:", "tar:"}
	for _, name := range pack.RecipeNames() {
		out = append(out, "host:"+name)
	}
	return out
}

// experimentTyped is the experiment of a command line; nil if it cannot be read.
func experimentTyped(args []string) *experiment.Experiment {
	name := append(slices.Clone(args), defaultExperiment)[0]
	data, builtin := experiment.Builtin(name)
	if !builtin {
		f, err := os.Open(name)
		if err != nil {
			return nil
		}
		defer func() { _ = f.Close() }() // it was only read
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil // reading could wait for ever
		}
		if data, err = io.ReadAll(io.LimitReader(f, maxExperiment)); err != nil {
			return nil
		}
	}
	e, err := experiment.Parse(name, data)
	if err != nil {
		return nil
	}
	return e
}

// workloadTyped is the workload of that experiment; nil if there is none.
func workloadTyped(args []string) bench.Workload {
	e := experimentTyped(args)
	if e == nil {
		return nil
	}
	for _, w := range app.Workloads() {
		if w.Name() == e.Workload() {
			return w
		}
	}
	return nil
}

// metricWords are the metrics that may decide in an experiment.
func metricWords(_ *cobra.Command, args []string) (out []string) {
	if w := workloadTyped(args); w != nil {
		for _, m := range w.Metrics() {
			if m.Role == bench.Primary || m.Role == bench.Detail {
				out = append(out, m.Name)
			}
		}
	}
	return out
}

// perMetric proposes some words and METRIC=.
func perMetric(words ...string) proposer {
	return func(c *cobra.Command, args []string) []string {
		out := slices.Clone(words)
		for _, m := range metricWords(c, args) {
			out = append(out, m+"=")
		}
		return out
	}
}

// paramsOf are the options of an experiment's workload.
func paramsOf(args []string) []bench.Param {
	if w := workloadTyped(args); w != nil {
		return w.Params()
	}
	return nil
}

// completeParams proposes NAME= and, after that, what the option is known to take.
func completeParams(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, _, valued := strings.Cut(typed, "=")
	var out []cobra.Completion
	for _, p := range paramsOf(args) {
		switch {
		case !valued:
			out = append(out, cobra.CompletionWithDesc(p.Name+"=", p.Doc))
		case p.Name == name:
			for _, v := range valuesOf(p) {
				out = append(out, name+"="+v)
			}
		}
	}
	if valued {
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// valuesOf are values that an option takes: its default, the words that its check names and, of
// some common ones, those that it lets pass.
func valuesOf(p bench.Param) (out []string) {
	words := []string{p.Default}
	if p.Valid != nil {
		words = append(words, "yes", "no", "auto")
		if choice, ok := errors.AsType[*bench.ChoiceError](p.Valid("\x00")); ok {
			words = append(words, choice.Words...)
		}
	}
	for _, w := range words {
		taken := w == "" || slices.Contains(out, w)
		if !taken && (p.Valid == nil || p.Valid(w) == nil) {
			out = append(out, w)
		}
	}
	return out
}

func completeTools(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, p := range paramsOf(args) {
		if p.Name == "tool" {
			out = valuesOf(p)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeFactors proposes NAME= and, after that, levels where they are known, also behind
// a comma.
func completeFactors(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, levels, valued := strings.Cut(typed, "=")
	if !valued {
		var out []cobra.Completion
		for _, n := range experiment.FactorNames() {
			out = append(out, n+"=")
		}
		for _, p := range paramsOf(args) {
			out = append(out, cobra.CompletionWithDesc(p.Name+"=", p.Doc))
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	all, directive := completeList(levelsOf(name, args)...)(c, args, levels)
	for i := range all {
		all[i] = name + "=" + all[i]
	}
	return all, directive
}

// levelsOf are levels that a factor can have.
func levelsOf(factor string, args []string) []string {
	switch factor {
	case "engine":
		return app.Names(app.Builtin())
	case "network":
		return experiment.Networks()
	case "storage":
		return experiment.Storages()
	case "image":
		return imageForms(nil, nil)
	case "seccomp":
		return []string{"default", "docker", "unconfined"}
	case "userns", "read_only", "no_new_privileges", "privileged":
		return []string{"true", "false"}
	}
	for _, p := range paramsOf(args) {
		if p.Name == factor {
			return valuesOf(p)
		}
	}
	return nil
}

// baselines are levels of the factors that the command line names, and of the engine.
func baselines(c *cobra.Command, _ []string) (out []string) {
	engines := app.Names(app.Builtin())
	if typed, err := c.Flags().GetStringArray("engine"); err == nil && len(typed) > 0 {
		if chosen, _, err := parseEngines(typed); err == nil {
			engines = chosen
		}
	}
	for _, e := range engines {
		out = append(out, "engine="+e)
	}
	for _, factor := range []string{"network", "storage", "image"} {
		levels, err := c.Flags().GetStringSlice(factor)
		if err != nil {
			continue
		}
		for _, l := range levels {
			out = append(out, factor+"="+l)
		}
	}
	slices.Sort(out)
	return slices.Compact(out) // what is completed has been parsed twice
}
