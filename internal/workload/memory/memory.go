// Package memory is the workload that moves memory, inside and outside of a
// container: how many bytes per second, and how long one access takes.
package memory

import (
	"context"
	"fmt"
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
	return "Memory: bytes per second read, written, copied and computed with, and the time of one access over working sets of several sizes."
}

func (workload) Metrics() []bench.Metric {
	all := []bench.Metric{
		bandwidth(memory.Copy, "copying memory", bench.Primary, "Bytes read and written per second while one array is copied to another (b = a)."),
		latency(memory.Latency, "memory access", bench.Primary, "Time of one access in the quickest chunks (first percentile), each access waiting for the one before it, over the largest power of two that an array has room for."),
		bandwidth(memory.Read, "reading memory", bench.Detail, "Bytes read per second while the words of an array are added up."),
		bandwidth(memory.Write, "writing memory", bench.Detail, "Bytes written per second while every word of an array is set."),
		bandwidth(memory.Triad, "computing with memory", bench.Detail, "Bytes read and written per second while one array is made of two others (c = a + 3b)."),
	}
	for _, size := range memory.Sizes(memory.MaxSize) {
		name := memory.LatencyOf(size)
		all = append(all, latency(name, "access within "+name[len(memory.Latency)+1:], bench.Detail, "As "+memory.Latency+", over a part of the array."))
	}
	return append(all, supervise.Counters()...)
}

func bandwidth(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "B/s", Better: bench.Higher, Role: role, Scale: bench.Ratio, Doc: doc}
}

func latency(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: bench.Ratio, Doc: doc}
}

// auto is the size that is made of the machine's last-level cache.
const auto = "auto"

func (workload) Params() []bench.Param {
	return []bench.Param{
		{Name: "time", Default: "1s", Valid: validBy("time"), Doc: "how long to measure in one trial, half of it bandwidth and half latency: a duration from 10ms to 10m"},
		{Name: "size", Default: auto, Valid: validSize, Doc: "of each of the three arrays, such as 64MiB; auto: a power of two, at least four times this host's last-level cache, from 64MiB to 1GiB"},
		{Name: "threads", Default: "1", Valid: validBy("threads"), Doc: "how many threads move memory at once: a number, or all for as many as there are CPUs to run on; latency has one"},
		{Name: "pages", Default: memory.Normal, Valid: validBy("pages"), Doc: "normal, transparent (huge pages that the kernel makes) or huge (huge pages that were set aside)"},
		{Name: "tool", Default: "", Valid: bench.OneOf("", sysbench.Name), Doc: "sysbench: the host's sysbench, packed into an image of its own; it gives memory.read and memory.write alone, which then have to decide: --primary memory.read,memory.write"},
		{Name: "block", Default: "1MiB", Valid: validBytes, Doc: "what sysbench reads or writes at a time"},
		{Name: "total", Default: "10GiB", Valid: validBytes, Doc: "how much sysbench reads, and how much it writes"},
	}
}

// validBy holds a value to the load's own rule.
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
	return sysbench.Unknown(workload{}.Params(), params, "pages")
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if t.Params["tool"] == sysbench.Name {
		return supervise.Stage(t.Engine, sysbenchJobs(t)...), nil
	}
	return supervise.Stage(t.Engine, supervise.Job{Spec: t.Spec, Load: supervise.LoadOf(memory.Name, options(t))}), nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	return supervise.Work(ctx, t, m)
}

// options are those of the load.
func options(t bench.Task) map[string]string {
	all := map[string]string{}
	for _, key := range []string{"time", "size", "threads", "pages"} {
		all[key] = t.Params[key]
	}
	if all["size"] == auto {
		all["size"] = strconv.FormatInt(sizeFor(proc.LastLevelCache("/")), 10)
	}
	return all
}

// sizeFor is the size of arrays that a cache has no room for, the same in every
// cell.
func sizeFor(cache int64) int64 {
	size := int64(64 << 20)
	for size < 4*cache && size < 1<<30 {
		size *= 2
	}
	return size
}
