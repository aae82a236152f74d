package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// The metrics of the machine that an analysis looks at. A run without one of them
// gives no warning about it.
const (
	stealMetric     = "host.steal_time"           // seconds, during the trial
	memoryMetric    = "host.memory_pressure_full" // seconds, during the trial
	runningMetric   = "host.running"              // threads at the trial's start, with tare's own
	blockedMetric   = "host.blocked"              // threads at the trial's start
	throttledMetric = "cgroup.throttled_time"     // seconds, of the container
)

// The limits above which there is a warning about the machine.
const (
	stealShare    = 0.005 // of the time of all CPUs during the trials
	memoryShare   = 0.01  // of the trials' time
	busyTrials    = 0.10  // of the trials
	overheadShare = 0.03  // of one CPU
	// overheadTrial is the CPU time that tare may always use in a trial: forking and
	// executing a program is part of the measured work, and a large part of a trial
	// of 1 ms.
	overheadTrial = 2 * time.Millisecond
)

// sums returns the sum of a metric for each cell, and how many of its trials are
// above a limit; false if the run does not have the metric.
func (w *warner) sums(name string, limit float64) (sum []float64, above []int, ok bool) {
	i := slices.IndexFunc(w.Header.Metrics, func(m bench.Metric) bool { return m.Name == name })
	if i < 0 {
		return nil, nil, false
	}
	sum, above = make([]float64, len(w.table.cells)), make([]int, len(w.table.cells))
	for _, r := range w.table.rows {
		if x := w.table.values(r); i < len(x) && isUsable(x[i]) {
			sum[r.cell] += x[i]
			if x[i] > limit {
				above[r.cell]++
			}
		}
	}
	return sum, above, true
}

func (w *warner) steal() {
	sum, _, ok := w.sums(stealMetric, 0)
	if !ok {
		return
	}
	stolen, had := total(sum), w.counted()*float64(max(1, w.Header.Host.CPUs))
	if had > 0 && stolen > stealShare*had {
		w.add(CodeSteal, fmt.Sprintf(
			"CPU steal: other virtual machines took %s of CPU time during trials, %s of this machine's",
			unit.Format(stolen, unit.Seconds), unit.FormatPercent(stolen/had)),
			"use dedicated CPUs or a quieter hour; ratios are affected less than absolute values", stealMetric)
	}
}

// pressure warns if the machine was busy when trials began, or ran short of memory
// during them. A trial that keeps the CPUs busy itself causes no warning.
func (w *warner) pressure() {
	w.busy(runningMetric, float64(w.Header.Host.CPUs),
		fmt.Sprintf("more threads wanted to run than there are CPUs (%d)", w.Header.Host.CPUs))
	w.busy(blockedMetric, 0, "other work was waiting for a disk")
	sum, _, ok := w.sums(memoryMetric, 0)
	if !ok {
		return
	}
	if stalled, watched := total(sum), w.counted(); watched > 0 && stalled > memoryShare*watched {
		w.add(CodePressure, fmt.Sprintf("memory stalls: all threads waited for memory for %s, %s of the trials' time",
			unit.Format(stalled, unit.Seconds), unit.FormatPercent(stalled/watched)),
			"reduce memory use, or use a machine with more memory", memoryMetric)
	}
}

// busy warns if a state was above a limit when many trials began.
func (w *warner) busy(metric string, limit float64, what string) {
	_, above, ok := w.sums(metric, limit)
	n := 0
	for _, a := range above {
		n += a
	}
	if ok && float64(n) > busyTrials*float64(len(w.table.rows)) {
		w.add(CodePressure, fmt.Sprintf("when %d of %d trials began, %s", n, len(w.table.rows), what),
			"stop other work on this machine, or raise --washout", metric)
	}
}

func total(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum
}

// counted is how long the host's counters were watched in all trials that count, in
// seconds, without hooks and without waiting before a trial. Older versions of tare did
// not keep it: for their runs it is the length of the whole trials.
func (w *warner) counted() float64 {
	var sum float64
	for i := range w.table.run.Samples {
		if s := &w.table.run.Samples[i]; s.Outcome == bench.OK && !s.Trial.Warmup() {
			sum += cmp.Or(s.Counted, s.Elapsed).Seconds()
		}
	}
	return sum
}

func (w *warner) throttled() {
	_, above, ok := w.sums(throttledMetric, 0)
	if !ok {
		return
	}
	var cells []int
	for c, n := range above {
		if n > 0 && w.table.cells[c].Spec.Limits.CPUs == 0 {
			cells = append(cells, c)
		}
	}
	if len(cells) > 0 {
		w.add(CodeThrottled, fmt.Sprintf("a CPU quota throttled %s, though the plan sets none", w.names(cells)),
			"look for a quota on the engine, or on the control group of tare itself", throttledMetric, cells...)
	}
}

func (w *warner) overhead() {
	if w.Incomplete() || w.End.Overhead.Wall <= 0 {
		return
	}
	o := w.End.Overhead
	trials := len(w.table.run.Samples)
	if share := o.CPU.Seconds() / o.Wall.Seconds(); share > overheadShare && o.CPU > time.Duration(trials)*overheadTrial {
		w.add(CodeOverhead, fmt.Sprintf("tare itself used %s of one CPU while trials ran", unit.FormatPercent(share)),
			"expected if trials are short, because tare starts programs and calls engines; cpuset keeps the cells "+
				"off one CPU; if trials are long, please report it", "")
	}
}

// residueInCells warns of cells whose trials did not all get the same applied.
func (w *warner) residueInCells() {
	first := make([]*bench.Sample, len(w.table.cells))
	var cells []int
	var what []string
	for i := range w.table.run.Samples {
		s := &w.table.run.Samples[i]
		a := first[s.Trial.Cell]
		switch {
		case s.Applied == nil || s.Outcome != bench.OK:
		case a == nil:
			first[s.Trial.Cell] = s
		default:
			if fields := differingFields(a, s); fields != nil {
				cells = append(cells, s.Trial.Cell)
				what = append(what, fields...)
			}
		}
	}
	if len(cells) > 0 {
		slices.Sort(what)
		w.add(CodeResidue, fmt.Sprintf("not all trials of %s got the same: %s differs",
			w.names(cells), strings.Join(slices.Compact(what), ", ")),
			"something changed the engine during the run; run again", "", cells...)
	}
}

// differingFields names the fields of Applied that differ between two trials. If a
// part of a survey failed, or ran apart from the others, its fields are unknown, which
// is no difference.
func differingFields(a, b *bench.Sample) []string {
	if a.Applied == b.Applied { // stores share what is the same
		return nil
	}
	partly := a.PartFailed() || b.PartFailed() || a.PartRegrouped() || b.PartRegrouped()
	va, vb := reflect.ValueOf(*a.Applied), reflect.ValueOf(*b.Applied)
	var out []string
	for i := range va.NumField() {
		if reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			continue
		}
		if name := strings.ToLower(va.Type().Field(i).Name); !partly || !slices.Contains(ofParts(), name) {
			out = append(out, name)
		}
	}
	return out
}

// ofParts lists the fields of Applied that each part of a survey has of its own. A
// trial has those of the first part that did not fail, or of the only part that has them.
func ofParts() []string {
	return []string{
		"argv", "network", "data", "datamounts", "path", "mounts", "limits", "builder", "process", "maker", "facts",
	}
}

// residueAcrossCells warns if cells asked for one image and got different ones.
func (w *warner) residueAcrossCells() {
	digests := make(map[string]map[string]bool) // by image asked for
	cells := make(map[string][]int)
	seen := make([]bool, len(w.table.cells)) // only the first trial: residueInCells checks the others
	for i := range w.table.run.Samples {
		s := &w.table.run.Samples[i]
		if s.Applied == nil || s.Applied.Image == "" || s.Outcome != bench.OK || seen[s.Trial.Cell] {
			continue
		}
		seen[s.Trial.Cell] = true
		asked := w.table.cells[s.Trial.Cell].Spec.Image
		if digests[asked] == nil {
			digests[asked] = make(map[string]bool)
		}
		digests[asked][s.Applied.Image] = true
		cells[asked] = append(cells[asked], s.Trial.Cell)
	}
	for _, asked := range slices.Sorted(maps.Keys(digests)) {
		if n := len(digests[asked]); n > 1 {
			name := asked
			if name == "" {
				name = "tare's own"
			}
			w.add(CodeResidue, fmt.Sprintf(
				"image %s is %d different images in %s: engines and images are confounded",
				name, n, w.names(cells[asked])),
				"give every engine the same image, by digest", "", cells[asked]...)
		}
	}
}

// residueAcrossResumptions warns if a run was resumed by another version of tare or
// on another machine.
func (w *warner) residueAcrossResumptions() {
	first := facts{host: w.Header.Host, tool: w.Header.Tool}
	var what []string
	for _, again := range w.Resumptions {
		for _, d := range differences([]facts{first, {host: again.Host, tool: again.Tool}}) {
			what = append(what, d.String())
		}
	}
	if len(what) > 0 {
		w.add(CodeResidue, "the run was resumed under other conditions: "+strings.Join(slices.Compact(what), "; "),
			"ratios within a block are not affected; for absolute values start a new run", "")
	}
}
