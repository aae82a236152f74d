// Package memory is the workload that measures memory bandwidth and latency, inside and
// outside of a container.
package memory

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/memory"
	"github.com/tare-bench/tare/internal/supervise"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return memory.Name }

func (workload) Doc() string {
	return "Memory: bandwidth of read, write, copy and triad, and the latency of one access in working sets of " +
		"several sizes."
}

func (workload) Metrics() []bench.Metric {
	all := []bench.Metric{
		bandwidth(memory.Copy, "memory copy", bench.Primary,
			"Bytes read and written per second while one array is copied to another (b = a)."),
		latency(memory.Latency, "memory latency", bench.Primary,
			"Time of one access in the fastest chunks (first percentile), where each access waits for the one "+
				"before it; the working set is the largest power of two that fits into an array."),
		bandwidth(memory.Read, "memory read", bench.Detail,
			"Bytes read per second while the words of an array are summed."),
		bandwidth(memory.Write, "memory write", bench.Detail,
			"Bytes written per second while every word of an array is set."),
		bandwidth(memory.Triad, "memory triad", bench.Detail,
			"Bytes read and written per second while one array is computed from two others (c = a + 3b, as in "+
				"STREAM)."),
	}
	for _, size := range memory.Sizes(memory.MaxSize) {
		name := memory.LatencyOf(size)
		all = append(all, latency(name, "memory latency, "+name[len(memory.Latency)+1:], bench.Detail, "Like "+memory.Latency+
			", with a part of the array as the working set."))
	}
	all = bench.WithStretches(all, memory.Copy)
	return append(all, supervise.Counters()...)
}

func bandwidth(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{
		Name: name, Title: title, Unit: "B/s", Better: bench.Higher, Role: role, Scale: bench.Ratio, Doc: doc,
	}
}

func latency(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: bench.Ratio, Doc: doc}
}

// auto is the size that depends on the machine's last-level cache.
const auto = "auto"

func (workload) Params() []bench.Param {
	return []bench.Param{
		{Name: "time", Default: "1s", Valid: validBy("time"), Doc: "measured time of one trial, from 10ms to 10m: " +
			"half for bandwidth and half for latency"},
		{Name: "size", Default: auto, Valid: validSize, Doc: "size of each of the three arrays, such as 64MiB; " +
			"auto: a power of two from 64MiB to 1GiB, at least four times this host's last-level cache"},
		{Name: "threads", Default: "1", Valid: validBy("threads"), Doc: "number of threads for bandwidth, " +
			"or all: one for each available CPU; latency uses one"},
		{Name: "pages", Default: memory.Normal, Valid: validBy("pages"), Doc: "normal, transparent (huge pages " +
			"made by the kernel), huge (reserved huge pages) or auto (transparent where the kernel makes them, else normal)"},
		{Name: "mappings", Default: "4", Valid: validBy("mappings"), Doc: "number of times that the arrays are mapped anew " +
			"within a trial, from 1 to 64; each mapping has its share of the time, and huge is mapped once"},
		{
			Name: "tool", Default: "", Valid: bench.OneOf("", sysbench.Name),
			Doc: "sysbench: use the host's sysbench, packed into an " +
				"image; it measures only memory.read and memory.write, so also set --primary memory.read,memory.write",
		},
		{Name: "block", Default: "1MiB", Valid: validBytes, Doc: "block size of sysbench"},
		{Name: "total", Default: "10GiB", Valid: validBytes, Doc: "bytes that sysbench reads, and bytes that it " +
			"writes"},
	}
}

// validBy checks an option with the load's own rule.
func validBy(option string) func(string) error {
	return func(value string) error { return load.Valid(option, value, memory.Valid) }
}

func validSize(s string) error {
	if s == auto {
		return nil
	}
	return validBy("size")(s)
}

func validBytes(s string) error {
	_, err := bytesOf(s)
	return err
}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	if err := supervise.CheckOwn(memory.Name, t.Spec); err != nil {
		return err
	}
	if err := (workload{}).CheckParams(t.Params); err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	if t.Params["tool"] == sysbench.Name {
		return sysbench.Find()
	}
	args, err := load.ParseArgs(load.Words(options(t)))
	if err != nil {
		return err
	}
	return memory.Check(args)
}

// CheckParams implements bench.ParamChecker.
func (workload) CheckParams(params map[string]string) error {
	if params["tool"] != sysbench.Name {
		return nil
	}
	given := maps.Clone(params)
	if given["pages"] == memory.Auto { // as the experiment has it
		given["pages"] = memory.Normal
	}
	return sysbench.UnknownOptions(workload{}.Params(), given, "pages", "mappings")
}

// TakesTurns implements bench.TurnTaker: with normal or reserved pages, all that a cell does is one turn (see the load).
func (workload) TakesTurns(params map[string]string) bool {
	pages := options(bench.Task{Params: params})["pages"]
	return params["tool"] == "" && (pages == memory.Transparent || pages == memory.Auto)
}

// RestingMemory implements bench.Hoarder: three arrays. One more is there only in the cell's own turn, while an
// array is mapped anew.
func (w workload) RestingMemory(params map[string]string) int64 {
	size, err := bytesOf(options(bench.Task{Params: params})["size"])
	if err != nil || !w.TakesTurns(params) {
		return 0 // the run will say what is wrong with the size
	}
	return 3 * size
}

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{{
		Code:   memory.NoteNormalPages,
		Text:   "the kernel had too few huge pages for the arrays of {cells}, which were in normal ones",
		Advice: "free memory is fragmented: measure with pages=normal in all cells",
		Metric: memory.Copy,
	}}
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if t.Params["tool"] == sysbench.Name {
		return supervise.NewJobs(t, sysbenchJobs(t)...), nil
	}
	return supervise.NewJobs(t, supervise.Job{Spec: t.Spec, Load: supervise.LoadOf(memory.Name, options(t))}), nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	return supervise.RunTrial(ctx, t, m)
}

// options returns the options of the load.
func options(t bench.Task) map[string]string {
	all := map[string]string{}
	for _, key := range []string{"time", "size", "threads", "pages", "mappings"} {
		all[key] = t.Params[key]
	}
	if all["pages"] == memory.Auto && !proc.MakesHugePages("/") {
		all["pages"] = memory.Normal
	}
	if all["size"] == auto {
		all["size"] = strconv.FormatInt(arraySize(proc.LastLevelCache("/")), 10)
	}
	return all
}

// arraySize returns a size of arrays that do not fit into a cache. It is the same in every
// cell.
func arraySize(cache int64) int64 {
	size := int64(64 << 20)
	for size < 4*cache && size < 1<<30 {
		size *= 2
	}
	return size
}
