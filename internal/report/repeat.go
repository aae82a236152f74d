package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Plan is what was fixed before the first trial, as far as it takes to measure the same again.
type Plan struct {
	Factors   []bench.Factor    `json:"factors"` // as in the record format
	MinBlocks int               `json:"min_blocks"`
	MaxBlocks int               `json:"max_blocks"`
	Budget    float64           `json:"budget_seconds"` // 0 = no limit
	Params    map[string]string `json:"params"`         // options of the workload that every cell has alike
	// Slice is how long the turns of cells are; 0 = all trials run whole. Whole says why trials run whole although
	// turns were asked for.
	Slice float64       `json:"slice_seconds,omitempty"`
	Whole []bench.Whole `json:"whole,omitempty"`
	// Command plans the same, for a shell. It is empty where a command line cannot say it: for engines with
	// options of their own, for names that a shell would not take as they are, for baselines with several names,
	// and for what another program has measured.
	Command string `json:"command"`

	asked []bench.Factor // Factors without the engines of no cell
}

func newPlan(h *bench.Header) Plan {
	p := Plan{
		Factors: append([]bench.Factor{}, h.Plan.Factors...), MinBlocks: h.Plan.MinBlocks, MaxBlocks: h.Plan.MaxBlocks,
		Budget: h.Plan.Budget.Seconds(), Params: commonParams(h.Plan.Cells),
		Slice: h.Plan.Slice.Seconds(), Whole: h.Plan.Whole, asked: withCells(&h.Plan),
	}
	p.Command = p.command(h)
	return p
}

// withCells are the factors of a plan without the engines of which it has no cell: an experiment may exclude one that
// stands in for others, and whoever names it is told that it is skipped.
func withCells(p *bench.Plan) []bench.Factor {
	factors := slices.Clone(p.Factors)
	for i, f := range factors {
		if f.Name != "engine" {
			continue
		}
		factors[i].Levels = slices.DeleteFunc(slices.Clone(f.Levels), func(level string) bool {
			label := bench.Label{Key: f.Name, Value: level}
			return !slices.ContainsFunc(p.Cells, func(c bench.Cell) bool {
				return c.Engine == level || slices.Contains(c.Levels, label)
			})
		})
	}
	return factors
}

// commonParams are the options with the same value in every cell.
func commonParams(cells []bench.Cell) map[string]string {
	common := map[string]string{}
	for i, c := range cells {
		if i == 0 {
			maps.Copy(common, c.Params)
			continue
		}
		maps.DeleteFunc(common, func(name, value string) bool { return c.Params[name] != value })
	}
	return common
}

// word is what a shell takes as it is, and what no flag is. phrase is such a text with blanks, for quotes.
var (
	word   = regexp.MustCompile(`^[A-Za-z0-9_./:@%+][A-Za-z0-9_./:@%+=,-]*$`)
	phrase = regexp.MustCompile(`^[A-Za-z0-9_./:@%+][A-Za-z0-9_./:@%+=, -]*$`)
)

// A commandLine is a command while it is put together. It is bad if a shell, or tare, would take a part of it for
// something else.
type commandLine struct {
	parts []string
	bad   bool
}

// add adds a flag with its value, in quotes if it needs them.
func (c *commandLine) add(flag, value string) {
	switch {
	case word.MatchString(value):
	case phrase.MatchString(value):
		value = "'" + value + "'"
	default:
		c.bad = true
	}
	c.parts = append(c.parts, flag+value)
}

// names says that some texts are in the command, each as one item of a list or before an equals sign.
func (c *commandLine) names(all ...string) {
	c.bad = c.bad || slices.ContainsFunc(all, func(s string) bool {
		return !phrase.MatchString(s) || strings.Contains(s, ",")
	})
}

// command is the Command of a plan.
func (p *Plan) command(h *bench.Header) string {
	if slices.ContainsFunc(h.Engines, isDeclared) || len(h.Plan.Plants) > 0 || h.MeasuredBy != "" {
		return ""
	}
	var c commandLine
	c.run(h.Plan.Name, p.asked)
	c.baseline(h.Plan.Cells)
	for _, name := range slices.Sorted(maps.Keys(p.Params)) {
		isFactor := slices.ContainsFunc(p.Factors, func(f bench.Factor) bool { return f.Name == name })
		if value := p.Params[name]; value != "" && !isFactor {
			c.add("--param ", name+"="+value)
		}
	}
	metrics := slices.Clone(h.Plan.Restrict)
	for _, m := range h.Plan.Margins {
		metrics = append(metrics, m.Metric)
	}
	if c.bad || slices.ContainsFunc(metrics, func(name string) bool { return !word.MatchString(name) }) {
		return ""
	}
	return strings.Join(append(c.parts, limitFlags(&h.Plan)...), " ")
}

// isDeclared reports whether an engine has options of its own. They may name a program of the machine, and a run may
// come from anywhere.
func isDeclared(e bench.EngineInfo) bool { return len(e.Options) > 0 && !e.BuiltIn }

// run says which experiment runs, and what of it is compared.
func (c *commandLine) run(experiment string, factors []bench.Factor) {
	c.add("tare run ", experiment)
	for _, f := range factors {
		c.names(append([]string{f.Name}, f.Levels...)...)
		if f.Name == "engine" {
			c.add("--engine ", strings.Join(f.Levels, ","))
		} else {
			c.add("--factor ", f.Name+"="+strings.Join(f.Levels, ","))
		}
	}
}

// again is the command that measures the experiment of a run again, with limits of its own.
func (r *Run) again() string {
	var c commandLine
	c.run(r.Experiment, r.Plan.asked)
	if r.on != nil {
		c.names(r.on...)
		c.add("--on ", strings.Join(r.on, ","))
	}
	if c.bad || slices.ContainsFunc(r.Engines, isDeclared) {
		return "tare run " + plain.Line(r.Experiment)
	}
	return strings.Join(c.parts, " ")
}

// baseline names the baseline, even if it is the one that a plan has by itself: the experiment's file may name
// another one. There is none if nothing is compared, and no flag can say that each condition has its own.
func (c *commandLine) baseline(cells []bench.Cell) {
	name, compared := "", false
	for _, one := range cells {
		switch {
		case !one.Baseline:
			compared = compared || !one.Control
		case name != "" && one.Name != name:
			c.bad = true
		default:
			name = one.Name
		}
	}
	if compared && name != "" {
		c.add("--baseline ", name)
	}
}

// limitFlags say how long, how precisely and in which order a plan measures. They say it even if it is what a plan
// has by itself: what the experiment's file says is not known here.
func limitFlags(p *bench.Plan) []string {
	or := func(text string, there bool) string {
		if !there {
			return "off"
		}
		return text
	}
	percent := func(v float64) string { return strconv.FormatFloat(100*v, 'g', 6, 64) + "%" }
	flags := []string{
		fmt.Sprintf("--blocks %d..%d", p.MinBlocks, p.MaxBlocks),
		"--budget " + or(wholeSeconds(p.Budget).String(), p.Budget > 0),
		"--precision " + or(percent(p.Precision), p.Precision > 0),
	}
	if p.Smallest > 0 {
		flags = append(flags, "--smallest "+percent(p.Smallest))
	}
	for _, m := range p.Margins {
		if m.Smallest > 0 {
			flags = append(flags, "--smallest "+m.Metric+"="+percent(m.Smallest))
		}
		if m.Precision > 0 {
			flags = append(flags, "--precision "+m.Metric+"="+percent(m.Precision))
		}
	}
	if len(p.Restrict) > 0 {
		flags = append(flags, "--primary "+strings.Join(p.Restrict, ","))
	}
	if !slices.ContainsFunc(p.Cells, func(c bench.Cell) bool { return c.Control }) {
		flags = append(flags, "--no-control")
	}
	if p.Syscalls {
		flags = append(flags, "--syscalls")
	}
	if p.Timeline > 0 {
		flags = append(flags, fmt.Sprintf("--timeline=%d", p.Timeline))
	}
	turns := or(p.Slice.String(), p.Slice > 0)
	if p.Slice == 0 && len(p.Whole) > 0 {
		turns = "auto" // it was asked for, and the plan says why there are none
	}
	flags = append(flags, "--interleave "+turns, "--warmup "+strconv.Itoa(p.Warmup),
		"--washout "+or(p.Washout.String(), p.Washout > 0))
	if p.TrialTime > 0 {
		flags = append(flags, "--trial-timeout "+p.TrialTime.String())
	}
	if p.OpTime > 0 {
		flags = append(flags, "--operation-timeout "+p.OpTime.String())
	}
	return append(flags, "--seed "+strconv.FormatUint(p.Seed, 10))
}

// wholeSeconds rounds a budget: that of an extended run has what was spent before it, to the nanosecond.
func wholeSeconds(d time.Duration) time.Duration {
	if d < time.Second {
		return d
	}
	return d.Round(time.Second)
}

// planLines say what was fixed before the first trial.
func planLines(r *Run) (lines []Line) {
	add := func(name string, text ...string) {
		lines = append(lines, Line{Name: plain.Line(name), Text: cleanLines(text)})
	}
	for _, f := range r.Plan.Factors {
		name := f.Name
		if f.Condition {
			name += " (condition)"
		}
		add(name, f.Levels...)
	}
	var options []string
	for _, name := range slices.Sorted(maps.Keys(r.Plan.Params)) {
		if value := r.Plan.Params[name]; value != "" {
			options = append(options, name+"="+value)
		}
	}
	if len(options) > 0 {
		add("options", options...)
	}
	limits := []string{fmt.Sprintf("%d to %d blocks", r.Plan.MinBlocks, r.Plan.MaxBlocks)}
	if r.Plan.Budget > 0 {
		limits = append(limits, "at most "+unit.FormatDuration(time.Duration(r.Plan.Budget*float64(time.Second))))
	}
	if r.Precision > 0 {
		limits = append(limits, "stop at ±"+unit.FormatPercent(r.Precision))
	}
	add("how long", limits...)
	add("seed", strconv.FormatUint(r.Seed, 10))
	return lines
}

func cleanLines(all []string) (out []string) {
	for _, s := range all {
		out = append(out, plain.Line(s))
	}
	return out
}

func newSettings(cells []bench.Cell, applied []*bench.Applied) []Applied {
	all := []Applied{}
	for i, a := range applied {
		if c := &cells[i]; a != nil && !c.Control {
			all = append(all, Applied{c.Name, c.Condition, *a})
		}
	}
	return all
}

// appliedLines say once what was the same in every cell, and then what each has for itself. Of what programs say of
// themselves they say only the latter.
func appliedLines(all []Applied) (lines []Line) {
	common := map[string]int{}
	for i := range all {
		for _, s := range slices.Concat(settingsOf(&all[i].Applied), factsOf(&all[i].Applied)) {
			common[s]++
		}
	}
	cells := map[string][]string{} // by what they have for themselves
	var order []string
	for i := range all {
		var own []string
		for _, s := range slices.Concat(settingsOf(&all[i].Applied), factsOf(&all[i].Applied)) {
			if common[s] < len(all) {
				own = append(own, s)
			}
		}
		key := strings.Join(own, "\x00")
		if len(own) > 0 && cells[key] == nil {
			order = append(order, key)
		}
		cells[key] = append(cells[key], plain.Line(qualifiedName(all[i].Cell, all[i].Condition)))
	}
	if len(all) > 0 {
		var same []string
		for _, s := range settingsOf(&all[0].Applied) {
			if common[s] == len(all) {
				same = append(same, s)
			}
		}
		if len(same) > 0 {
			lines = append(lines, Line{Name: "every cell", Text: same})
		}
	}
	for _, key := range order {
		lines = append(lines, Line{Name: strings.Join(cells[key], ", "), Text: strings.Split(key, "\x00")})
	}
	return lines
}

// factsOf lists what the program inside has said of itself.
func factsOf(a *bench.Applied) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Facts)) {
		all = append(all, plain.Line(name+" "+a.Facts[name]))
	}
	return all
}

// settingsOf lists what was applied, in words. Paths and data have a list of their own.
func settingsOf(a *bench.Applied) (all []string) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, plain.Line(name+" "+value))
		}
	}
	add("runtime", a.Runtime)
	add("built by", a.Builder)
	add("made by", a.Maker)
	digest, _ := strings.CutPrefix(a.Image, "sha256:")
	add("image", digest[:min(12, len(digest))])
	add("network", a.Network)
	add("root on", a.Storage)
	add("control groups", a.Cgroup)
	if a.Limits.CPUs > 0 {
		add("CPUs", strconv.FormatFloat(a.Limits.CPUs, 'g', 4, 64))
	}
	add("on CPUs", a.Limits.CPUSet)
	if a.Limits.Memory > 0 {
		add("memory", unit.Format(float64(a.Limits.Memory), unit.Bytes))
	}
	if a.Limits.Pids > 0 {
		add("processes", strconv.FormatInt(a.Limits.Pids, 10))
	}
	add("seccomp", a.Security.Seccomp)
	for _, on := range []struct {
		is   bool
		text string
	}{
		{a.Security.UserNS, "user namespace"},
		{a.Security.ReadOnly, "read-only root"},
		{a.Security.NoNewPrivileges, "no new privileges"},
		{a.Security.Privileged, "privileged"},
	} {
		if on.is {
			all = append(all, on.text)
		}
	}
	return all
}
