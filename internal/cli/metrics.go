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
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// What stands for metrics that are not of one workload: those of the machine, and those of
// the processes inside, which many workloads have.
const (
	machineName = "machine"
	insideName  = "inside"
)

// workloadMetrics is a workload with its metrics, as --json prints it.
type workloadMetrics struct {
	Workload string         `json:"workload"`
	Doc      string         `json:"doc"`
	Metrics  []bench.Metric `json:"metrics"`
}

func (a *invocation) metricsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metrics [WORKLOAD|EXPERIMENT|METRIC]",
		Short: "List the metrics of workloads with their units and meanings",
		Long: `Metrics lists everything that a workload measures: the name of each metric, its
unit, which direction is better, and from which event to which event it is
measured. An experiment stands for its workload, "machine" for what every run
records about the machine, and "inside" for what many workloads count for the
processes in the container. The name of a metric stands for itself. Without an
argument it lists all of them.

Primary metrics decide: the verdicts of a run are about them. --primary chooses
others. Details explain the primary ones. Counters are what the kernel counted
during a trial, and states are what the host was like when the trial began.`,
		Example: `  tare metrics lifecycle
  tare metrics cpu.single
  tare metrics quick --json`,
		Args: atMostOne("a workload or a metric"),
		RunE: func(_ *cobra.Command, args []string) error { return a.metrics(args) },
	}
	cmd.ValidArgsFunction = completeWorkloads(machineName, insideName)
	return cmd
}

func (a *invocation) metrics(args []string) error {
	all, err := a.metricsOf(args)
	if err != nil {
		return err
	}
	if a.global.JSON {
		return a.printJSON(all)
	}
	for i, m := range all {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		writeMetrics(a.stdout, m, a.width())
	}
	return nil
}

func (a *invocation) metricsOf(args []string) ([]workloadMetrics, error) {
	if len(args) == 0 {
		return everyMetric(), nil
	}
	switch args[0] {
	case machineName:
		return []workloadMetrics{ofMachine()}, nil
	case insideName:
		return []workloadMetrics{ofInside()}, nil
	}
	w, e, err := a.workloadOf(args[0], machineName, insideName)
	if err != nil {
		if called := metricsCalled(args[0]); len(called) > 0 {
			return called, nil
		}
		return nil, err
	}
	metrics := w.Metrics()
	if e != nil {
		plan := bench.Plan{Restrict: e.Primary()}
		for i := range metrics {
			metrics[i].Role = plan.Role(metrics[i])
		}
	}
	return []workloadMetrics{{w.Name(), w.Doc(), metrics}}, nil
}

// metricsCalled are the metrics of that name, of each workload that has one.
func metricsCalled(name string) (called []workloadMetrics) {
	for _, w := range everyMetric() {
		w.Metrics = slices.DeleteFunc(w.Metrics, func(m bench.Metric) bool { return m.Name != name })
		if len(w.Metrics) > 0 {
			called = append(called, w)
		}
	}
	return called
}

// everyMetric lists all workloads with their metrics, and last those that are not of one
// workload, which are listed nowhere else.
func everyMetric() (all []workloadMetrics) {
	for _, w := range app.WorkloadsByName() {
		all = append(all, workloadMetrics{w.Name(), w.Doc(), slices.DeleteFunc(w.Metrics(), app.IsInside)})
	}
	return append(all, ofInside(), ofMachine())
}

func ofMachine() workloadMetrics {
	return workloadMetrics{machineName, "What every run records about the machine.", app.MachineMetrics()}
}

func ofInside() workloadMetrics {
	return workloadMetrics{
		insideName,
		"What workloads with a load count for the processes in the container, and what they say of the trial. In a " +
			"survey the names of the counters begin with that of the part.",
		app.InsideMetrics(),
	}
}

// roleTitles are the headings of the roles that metrics have, in the order in which they
// are shown.
func roleTitles() []struct {
	role  bench.Role
	title string
} {
	return []struct {
		role  bench.Role
		title string
	}{
		{bench.Primary, "primary"}, {bench.Detail, "details"}, {bench.Counter, "counters"}, {bench.State, "states"},
	}
}

// ofRole are the metrics that have a role.
func ofRole(all []bench.Metric, role bench.Role) []bench.Metric {
	return slices.DeleteFunc(slices.Clone(all), func(m bench.Metric) bool { return m.Role != role })
}

func writeMetrics(w io.Writer, m workloadMetrics, width int) {
	term.WriteWrapped(w, m.Workload+": ", m.Doc, width)
	for _, r := range roleTitles() {
		metrics := ofRole(m.Metrics, r.role)
		if len(metrics) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n  %s\n", r.title)
		for _, m := range metrics {
			fmt.Fprintf(w, "    %s  (%s)\n", m.Name, unitAndDirection(m))
			term.WriteWrapped(w, "        ", meaning(m), width)
		}
	}
}

// unitAndDirection says what the values of a metric are.
func unitAndDirection(m bench.Metric) string {
	unit := unitName(m.Unit)
	switch m.Better {
	case bench.Lower:
		return unit + ", less is better"
	case bench.Higher:
		return unit + ", more is better"
	default:
		return unit
	}
}

// unitName is a base unit in words; a unit that has no other name stands for itself.
func unitName(unit string) string {
	switch unit {
	case "s":
		return "seconds"
	case "B":
		return "bytes"
	case "1":
		return "number"
	case "1/s":
		return "per second"
	case "B/s":
		return "bytes per second"
	default:
		return unit
	}
}

// meaning is what people read in tables, and what it spans.
func meaning(m bench.Metric) string {
	if m.Doc == "" || strings.EqualFold(m.Doc, m.Title) {
		return m.Title
	}
	return m.Title + ": " + m.Doc
}

// workloadOf returns a workload by its name, or the one of an experiment, which is
// returned too. Other words are those that the command knows beside.
func (a *invocation) workloadOf(name string, others ...string) (bench.Workload, *experiment.Experiment, error) {
	var e *experiment.Experiment
	workload := name
	if _, builtin := experiment.Builtin(name); builtin || strings.ContainsAny(name, "./") {
		var err error
		if e, err = a.experiment(name); err != nil {
			return nil, nil, err
		}
		workload = e.Workload()
	}
	known := others
	for _, w := range app.WorkloadsByName() {
		if w.Name() == workload {
			return w, e, nil
		}
		known = append(known, w.Name())
	}
	hint := "the workloads are " + sentenceList(known) + "; an experiment stands for its workload"
	for _, b := range experiment.Builtins() {
		known = append(known, b.Name)
	}
	if near, ok := experiment.Nearest(workload, known); ok {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return nil, nil, &usageError{fmt.Errorf("unknown workload %q", workload), hint}
}

// MetricsPage is the page of the docs that lists every metric.
func MetricsPage() []byte {
	var b strings.Builder
	b.WriteString("# Metrics\n\nEvery metric of every workload. `tare metrics WORKLOAD` prints the same, " +
		"with `--json` for programs.\n`--primary` names metrics that decide in place of the primary ones. The " +
		"[glossary](glossary.md)\nexplains the roles, and [docs/workloads](workloads) how each workload measures.\n" +
		"This page is made from the code: `make generate`.\n")
	for _, m := range everyMetric() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | unit | better | role | meaning |\n| --- | --- | --- | --- | --- |\n",
			m.Workload, m.Doc)
		for _, r := range roleTitles() {
			for _, one := range ofRole(m.Metrics, r.role) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", one.Name, unitName(one.Unit), directionWord(one.Better),
					one.Role, cell(meaning(one)))
			}
		}
	}
	return []byte(b.String())
}

func directionWord(d bench.Direction) string {
	switch d {
	case bench.Lower:
		return "less"
	case bench.Higher:
		return "more"
	default:
		return "–"
	}
}

// cell is a text in a table of Markdown.
func cell(text string) string { return strings.ReplaceAll(plain.Line(text), "|", `\|`) }
