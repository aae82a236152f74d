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

// The metrics of the machine that an analysis looks at. A run that has not
// got them gives no warning about them.
const (
	stealMetric     = "host.steal_time"           // seconds, during the trial
	memoryMetric    = "host.memory_pressure_full" // seconds, during the trial
	runningMetric   = "host.running"              // threads, when it began, tare's own included
	blockedMetric   = "host.blocked"              // threads, when it began
	throttledMetric = "cgroup.throttled_time"     // seconds, of the container
)

// What a warning about the machine takes.
const (
	stealShare    = 0.005 // of the time of all CPUs while it was counted
	memoryShare   = 0.01  // of the time in which it was counted
	busyTrials    = 0.10  // of the trials
	overheadShare = 0.03  // of one CPU
	// overheadTrial is what tare may always use in a trial: to fork and execute a
	// program is the work that is measured, and of a trial of 1 ms a large part.
	overheadTrial = 2 * time.Millisecond
)

// sums returns the sum of a metric for each cell and how many trials are above
// a limit; false where the run has not got the metric.
func (w *warner) sums(name string, limit float64) (sum []float64, above []int, ok bool) {
	i := slices.IndexFunc(w.Header.Metrics, func(m bench.Metric) bool { return m.Name == name })
	if i < 0 {
		return nil, nil, false
	}
	sum, above = make([]float64, len(w.table.cells)), make([]int, len(w.table.cells))
	for _, r := range w.table.rows {
		if i < len(r.values) && usable(r.values[i]) {
			sum[r.cell] += r.values[i]
			if r.values[i] > limit {
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
		w.add(CodeSteal, fmt.Sprintf("other virtual machines took %s of CPU time away during trials, %s of what this machine has",
			unit.Format(stolen, unit.Seconds), unit.FormatPercent(stolen/had)),
			"run where the CPU is not shared, or at a quieter hour; ratios suffer less than values", stealMetric)
	}
}

// pressure looks at what the machine was doing when trials began, and whether
// it ran out of memory during them. That a trial keeps the CPUs busy itself is
// no reason for a warning.
func (w *warner) pressure() {
	w.busy(runningMetric, float64(w.Header.Host.CPUs), fmt.Sprintf("more threads wanted to run than the %d CPUs could", w.Header.Host.CPUs))
	w.busy(blockedMetric, 0, "something else was waiting for a disk")
	sum, _, ok := w.sums(memoryMetric, 0)
	if !ok {
		return
	}
	if stalled, watched := total(sum), w.counted(); watched > 0 && stalled > memoryShare*watched {
		w.add(CodePressure, fmt.Sprintf("every thread was waiting for memory for %s, %s of the trials' time",
			unit.Format(stalled, unit.Seconds), unit.FormatPercent(stalled/watched)),
			"stop what takes the memory, or use a machine with more of it", memoryMetric)
	}
}

// busy warns where a state was above a limit when many trials began.
func (w *warner) busy(metric string, limit float64, what string) {
	_, above, ok := w.sums(metric, limit)
	n := 0
	for _, a := range above {
		n += a
	}
	if ok && float64(n) > busyTrials*float64(len(w.table.rows)) {
		w.add(CodePressure, fmt.Sprintf("when %d of %d trials began, %s", n, len(w.table.rows), what),
			"stop what runs beside, or raise --washout", metric)
	}
}

func total(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum
}

// counted is for how long the host's counters were watched in all trials that count, in
// seconds: hooks and waiting before a trial are not in it. Of runs by versions of tare
// that did not keep it, it is how long the whole trials took.
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
		w.add(CodeThrottled, fmt.Sprintf("a CPU quota stopped %s for a time, and the plan asked for none", w.names(cells)),
			"look for a quota on the engine or on what tare runs in", throttledMetric, cells...)
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
			"starting programs and asking engines is part of it, most of all where trials are short; cpuset keeps the cells off one CPU; where trials are long, please report it", "")
	}
}

// residueInCells finds cells whose trials did not all get the same.
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
		w.add(CodeResidue, fmt.Sprintf("trials of %s did not all get the same: %s differs", w.names(cells), strings.Join(slices.Compact(what), ", ")),
			"something changed the engine while the run went on; run again", "", cells...)
	}
}

// differingFields names what differs between what was applied in two trials. Where a
// part of a survey failed, or ran apart from the others, what it would have told is not
// known, and is no difference.
func differingFields(a, b *bench.Sample) []string {
	partly := a.PartFailed() || b.PartFailed() || a.PartApart() || b.PartApart()
	va, vb := reflect.ValueOf(*a.Applied), reflect.ValueOf(*b.Applied)
	var out []string
	for i := range va.NumField() {
		name := strings.ToLower(va.Type().Field(i).Name)
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) && !(partly && slices.Contains(ofParts(), name)) {
			out = append(out, name)
		}
	}
	return out
}

// ofParts are the fields of what was applied that each part of a survey has of its own:
// a trial tells those of the first that did not fail, or of the only one that has them.
func ofParts() []string { return []string{"argv", "network", "data", "path", "mounts", "limits"} }

// residueAcrossCells finds cells that asked for one image and got several.
func (w *warner) residueAcrossCells() {
	digests := make(map[string]map[string]bool) // by image asked for
	cells := make(map[string][]int)
	seen := make([]bool, len(w.table.cells)) // only its first trial: the others are residueInCells
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
			w.add(CodeResidue, fmt.Sprintf("image %s is %d different images among %s: engines and images are confounded", name, n, w.names(cells[asked])),
				"give every engine the same image, by digest", "", cells[asked]...)
		}
	}
}

// residueAcrossResumptions finds a run that was taken up by another tare or on
// another machine.
func (w *warner) residueAcrossResumptions() {
	first := facts{host: w.Header.Host, tool: w.Header.Tool}
	var what []string
	for _, again := range w.Resumptions {
		for _, d := range differences([]facts{first, {host: again.Host, tool: again.Tool}}) {
			what = append(what, d.String())
		}
	}
	if len(what) > 0 {
		w.add(CodeResidue, "the run was resumed on something else: "+strings.Join(slices.Compact(what), "; "),
			"ratios within a block are still of one machine; start a new run for values", "")
	}
}
