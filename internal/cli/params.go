package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/text/term"
)

// An adjustable is a workload with its options, as --json prints it.
type adjustable struct {
	Workload string       `json:"workload"`
	Doc      string       `json:"doc"`
	Params   []shownParam `json:"params"`
	set      string       // the experiment that sets some of them; empty if a workload was asked for
}

type shownParam struct {
	Name    string  `json:"name"`
	Default string  `json:"default"`
	Set     *string `json:"set,omitempty"` // the experiment's value, where it has one
	Doc     string  `json:"doc"`
}

func (a *invocation) paramsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "params [WORKLOAD|EXPERIMENT]",
		Short: "List the options of workloads with their defaults and meanings",
		Long: `Params lists the options of a workload, which --param NAME=VALUE and the key
params of an experiment set, with their defaults. Of an experiment it lists the
options of its workload, and the values that the experiment sets. Without an
argument it lists those of all workloads.

An option can also be compared: --factor NAME=VALUE,VALUE.`,
		Example: `  tare params http
  tare params quick
  tare run http --param connections=64`,
		Args: atMostOne("a workload"),
		RunE: func(_ *cobra.Command, args []string) error { return a.params(args) },
	}
	cmd.ValidArgsFunction = completeWorkloads()
	return cmd
}

func (a *invocation) params(args []string) error {
	all := everyParam()
	if len(args) > 0 {
		w, e, err := a.workloadOf(args[0])
		if err != nil {
			return err
		}
		all = []adjustable{adjustableOf(w, e)}
	}
	if a.global.JSON {
		return a.printJSON(all)
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		writeParams(a.stdout, one, a.width())
	}
	return nil
}

// everyParam lists all workloads with their options.
func everyParam() (all []adjustable) {
	for _, w := range app.WorkloadsByName() {
		all = append(all, adjustableOf(w, nil))
	}
	return all
}

// adjustableOf is a workload with its options, and what an experiment, which may be nil,
// makes of them.
func adjustableOf(w bench.Workload, e *experiment.Experiment) adjustable {
	out := adjustable{Workload: w.Name(), Doc: w.Doc(), Params: []shownParam{}}
	var set []bench.Label
	if e != nil {
		set, out.set = e.Params(), e.Name()
	}
	for _, p := range w.Params() {
		one := shownParam{Name: p.Name, Default: p.Default, Doc: p.Doc}
		if i := slices.IndexFunc(set, func(l bench.Label) bool { return l.Key == p.Name }); i >= 0 {
			one.Set = &set[i].Value
		}
		out.Params = append(out.Params, one)
	}
	return out
}

func writeParams(w io.Writer, all adjustable, width int) {
	term.WriteWrapped(w, all.Workload+": ", all.Doc, width)
	if len(all.Params) == 0 {
		fmt.Fprint(w, "\n    no options\n")
		return
	}
	fmt.Fprintln(w)
	for _, p := range all.Params {
		line := p.Name
		if p.Default != "" {
			line += "=" + p.Default
		}
		if p.Set != nil && *p.Set != p.Default {
			line += fmt.Sprintf(" (experiment %s: %s)", all.set, *p.Set)
		}
		term.WriteWrapped(w, "    ", line, width)
		term.WriteWrapped(w, "        ", p.Doc, width)
	}
}

// ParamsPage is the page of the docs that lists every option.
func ParamsPage() []byte {
	var b strings.Builder
	b.WriteString("# Options of workloads\n\nEvery option of every workload: `--param NAME=VALUE`, " +
		"or the key `params` of an [experiment](experiment.md).\n`tare params WORKLOAD` prints the same, " +
		"with `--json` for programs, and `tare params EXPERIMENT` the\nvalues that an experiment sets. This page is made " +
		"from the code: `make generate`.\n")
	for _, one := range everyParam() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", one.Workload, one.Doc)
		if len(one.Params) == 0 {
			b.WriteString("It has no options.\n")
			continue
		}
		b.WriteString("| option | default | meaning |\n| --- | --- | --- |\n")
		for _, p := range one.Params {
			value := "empty"
			if p.Default != "" {
				value = "`" + p.Default + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, value, cell(p.Doc))
		}
	}
	return []byte(b.String())
}
