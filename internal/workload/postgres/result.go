package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

// A partResult is what one part gave.
type partResult struct {
	part    part
	report  *load.Report
	steps   []step
	counted counts        // by the server
	cpu     time.Duration // of the server
	memory  int64         // of the server, in bytes
}

// record reports the values of a part.
func (t *trial) record(r partResult) {
	to := partRecorder{t.m, r.part.name}
	declared := declaredOf(r.part.name)
	for _, name := range slices.Sorted(maps.Keys(r.report.Values)) {
		if declared[name] {
			to.Record(name, r.report.Values[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.report.Distributions)) {
		to.Distribution(name, string(r.report.Distributions[name]))
	}
	t.recordSeries(to, r)
	supervise.RecordCost(to, r.report)
	for name, value := range r.values() {
		if declared[name] {
			to.Record(name, value)
		}
	}
	r.recordInside(to)
	t.notePart(r)
}

// recordInside reports what the kernel counted for the server. Of pgbench's clients it is not known: the kernel has
// forgotten the server's processes.
func (r partResult) recordInside(to partRecorder) {
	var all []*supervise.Counts
	transactions := 0.0
	for _, s := range r.steps {
		if s.inside == nil {
			return
		}
		all, transactions = append(all, s.inside), transactions+s.transactions()
		if r.part.sweep != nil {
			recordSwitches(to, switchesEach+stepSuffix(s.clients), s.transactions(), s.inside)
		}
	}
	supervise.Record(to, all...)
	recordSwitches(to, switchesEach, transactions, all...)
}

// recordSwitches reports the context switches per transaction.
func recordSwitches(to partRecorder, name string, transactions float64, counts ...*supervise.Counts) {
	if n, ok := supervise.Switches(counts...); ok && n > 0 && transactions > 0 {
		to.Record(name, n/transactions)
	}
}

// recordSeries reports the seconds of a part one by one, and how fast it was in each of its turns.
func (t *trial) recordSeries(to bench.Recorder, r partResult) {
	for _, name := range perSecond() {
		to.Series(name, r.report.Series[name])
	}
	to.Series(Rate+supervise.SlicesSuffix, r.report.Slices[Rate])
	from, err := strconv.ParseInt(r.report.Facts["counting"], 10, 64)
	seconds := len(r.report.Series[perSecond()[0]])
	if turns := t.task.Turns; err != nil || seconds == 0 || turns != nil && turns.On() {
		return
	}
	shares, sum := t.log.checkpointing(time.Duration(from), seconds), 0.0
	for _, share := range shares {
		sum += share
	}
	to.Series(bench.CheckpointSeries, shares)
	to.Record(checkpoint, sum/float64(seconds))
}

// perSecond are the series of a load that has several seconds.
func perSecond() []string {
	return []string{
		bench.PerSecond + Rate, bench.PerSecond + Median, bench.PerSecond + "time.p99", bench.PerSecond + "time.mean",
		bench.PerSecond + "time.max",
	}
}

// values computes what the server counted, most of it per transaction. Those of the warm-up count on
// both sides.
func (r partResult) values() map[string]float64 {
	all := map[string]float64{
		checkpoints: r.counted["checkpoints"], deadlocks: r.counted["deadlocks"], tempBytes: r.counted["temp"],
	}
	if r.memory > 0 {
		all[memoryLoad] = float64(r.memory)
	}
	if pages := r.counted["hit"] + r.counted["read"]; pages > 0 {
		all[hitRatio] = r.counted["hit"] / pages
	}
	n := transactionsOf(r.report)
	if n <= 0 {
		return all
	}
	if r.cpu > 0 {
		all[cpuEach] = r.cpu.Seconds() / n
	}
	all[readsEach] = r.counted["read"] / n
	for metric, count := range map[string]string{walEach: "wal", pagesEach: "pages", syncsEach: "syncs"} {
		if value, ok := r.counted[count]; ok {
			all[metric] = value / n
		}
	}
	if ms, ok := r.counted["sync_ms"]; ok {
		all[syncEach] = ms / 1000 / n
	}
	return all
}

// declaredOf are the metrics of a part, without its name.
func declaredOf(name string) map[string]bool {
	all := map[string]bool{}
	for _, m := range partMetrics(name) {
		all[strings.TrimPrefix(m.Name, name+".")] = true
	}
	return all
}

// A partRecorder records the metrics of a part.
type partRecorder struct {
	bench.Recorder
	part string
}

// Record implements bench.Recorder.
func (p partRecorder) Record(metric string, value float64) {
	p.Recorder.Record(p.part+"."+metric, value)
}

// Distribution implements bench.Recorder.
func (p partRecorder) Distribution(metric, hdr string) {
	p.Recorder.Distribution(p.part+"."+metric, hdr)
}

// Series implements bench.Recorder.
func (p partRecorder) Series(metric string, values []float64) {
	p.Recorder.Series(p.part+"."+metric, values)
}
