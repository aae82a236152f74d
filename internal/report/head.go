package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// hostParts says what machine it was, as far as it is known: not all is of one that another program
// measured.
func hostParts(h *bench.HostFacts) []string {
	system, _, _ := strings.Cut(h.OS, " (")
	model, _, _ := strings.Cut(h.CPU, " @ ")
	model = strings.NewReplacer("(R)", "", "(TM)", "", " CPU", "", " Processor", "").Replace(model)
	var parts []string
	add := func(known bool, text string) {
		if known {
			parts = append(parts, text)
		}
	}
	add(h.Hostname != "", plain.Line(h.Hostname))
	if h.Kernel != "" {
		system = strings.TrimPrefix(system+", Linux "+h.Kernel, ", ")
	}
	add(system != "", plain.Line(system))
	add(h.CPUs > 0, fmt.Sprintf("%d × %s", h.CPUs, plain.Line(strings.TrimSpace(model))))
	add(h.CPUs == 0 && model != "", plain.Line(strings.TrimSpace(model)))
	add(h.Memory > 0, unit.Format(float64(h.Memory), unit.Bytes))
	add(h.Cgroup != "", "cgroup "+plain.Line(h.Cgroup))
	return parts
}

// cellNames lists what is compared. Beyond a dozen, the table does.
func cellNames(cells []bench.Cell) string {
	var names []string
	control := ""
	for _, c := range cells {
		switch name := plain.Line(c.Name); {
		case c.Control:
			control = " + control"
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	if len(names) > 12 {
		return fmt.Sprintf("%d cells%s", len(names), control)
	}
	return strings.Join(names, ", ") + control
}

// programs names the programs of the host that measured in place of the built-in ones, if
// they did so in every cell. Otherwise the cells' names say it.
func programs(cells []bench.Cell) []string {
	names := []string{}
	if len(cells) == 0 {
		return names
	}
	for _, option := range slices.Sorted(maps.Keys(cells[0].Params)) {
		name := cells[0].Params[option]
		part, isTool := strings.CutSuffix(option, "tool")
		if !isTool || name == "" || part != "" && !strings.HasSuffix(part, ".") || part == name+"." {
			continue // a part that is called like its program needs no second name
		}
		if !slices.ContainsFunc(cells, func(c bench.Cell) bool { return c.Params[option] != name }) {
			names = append(names, strings.TrimSpace(strings.TrimSuffix(part, ".")+" "+name))
		}
	}
	return names
}

// title is what was measured and, if tare itself did not measure it, with which programs.
func title(r *Run) string {
	if len(r.Programs) == 0 {
		return plain.Line(r.Experiment)
	}
	return plain.Line(r.Experiment + " by " + strings.Join(r.Programs, ", "))
}

// runParts says how long the run took and why it ended; h is the header of r.
func runParts(r *Run, h *bench.Header) []string {
	wall := time.Duration(r.Wall * float64(time.Second))
	parts := []string{
		fmt.Sprintf("%s in %s", unit.FormatCount(r.Blocks, "block"), unit.FormatDuration(wall.Round(100*time.Millisecond))),
	}
	if h.MeasuredBy != "" {
		return append(parts, "measured by "+plain.Line(h.MeasuredBy))
	}
	parts = append(parts, fmt.Sprintf("seed %d", r.Seed))
	switch bench.StopReason(r.Stopped) {
	case bench.StopPrecision:
		return append(parts, "stopped: "+precise(h))
	case bench.StopBlocks:
		return append(parts, "stopped: all blocks done")
	case bench.StopBudget:
		return append(parts, "stopped: time limit reached")
	case bench.StopAllFailed:
		if r.Trials.Failed+r.Trials.TimedOut+r.Trials.Warmup == 0 {
			return append(parts, "stopped: no cell could run")
		}
		return append(parts, "stopped: every cell failed")
	case StillRunning:
		return append(parts, "running")
	default:
		return append(parts, "incomplete")
	}
}

// precise says how precise a run had to become.
func precise(h *bench.Header) string {
	least, largest := h.Plan.Precisions(h.Metrics)
	if least < largest {
		return "every metric precise enough"
	}
	return "±" + unit.FormatPercent(largest) + " reached"
}

func engineParts(engines []bench.EngineInfo) []string {
	var out []string
	for _, e := range engines {
		if e.Version != "" && len(engines) <= 12 {
			out = append(out, plain.Line(e.Name+" "+e.Version))
		}
	}
	return out
}

// machineLines list what the head leaves out of the machine, and the settings of the engines.
func machineLines(r *Run) (lines []Line) {
	add := func(name string, text ...string) {
		text = slices.DeleteFunc(text, func(s string) bool { return s == "" })
		if len(text) > 0 {
			lines = append(lines, Line{Name: plain.Line(name), Text: cleanLines(text)})
		}
	}
	h := &r.Host
	add("virtualization", h.Virtual)
	add("governor", h.Governor)
	add("clock source", h.Clock)
	add("disks", h.Disks)
	add("mitigations", h.Mitigations)
	add("security modules", h.Security)
	for _, e := range r.Engines {
		var facts []string
		for _, f := range e.Facts {
			facts = append(facts, f.Key+" "+f.Value)
		}
		add(e.Name, facts...)
	}
	return lines
}

// awayParts says on which other machines containers were made, and of which
// engines.
func awayParts(engines []bench.EngineInfo) [][]string {
	var lines [][]string
	at := map[string]int{} // lines by address
	for _, e := range engines {
		if e.Away == nil {
			continue
		}
		i, known := at[e.Away.Address]
		if !known {
			i = len(lines)
			at[e.Away.Address] = i
			where := fmt.Sprintf("at %s, %s away", plain.Line(e.Away.Address), unit.FormatDuration(e.Away.RoundTrip))
			lines = append(lines, append([]string{"", where}, hostParts(&e.Away.Host)...))
		}
		lines[i][0] = strings.TrimPrefix(lines[i][0]+", "+plain.Line(e.Name), ", ")
	}
	return lines
}
