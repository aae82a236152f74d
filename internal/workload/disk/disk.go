// Package disk is the workload that reads and writes a file: in a container's writable
// layer, in a volume, in a directory of the host or in memory, and without a container.
package disk

import (
	"context"
	"fmt"
	"maps"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/supervise"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return "disk" }

func (workload) Doc() string {
	return "Random and sequential reads and writes of a file with many requests at once, and single blocks forced " +
		"to the disk."
}

func (workload) Metrics() []bench.Metric {
	const within = "that completed within the time of the pattern, divided by that time"
	all := []bench.Metric{
		metric("disk.randread.iops", "random reads", "1/s", bench.Primary, "Reads of one block at random places "+within+"."),
		metric("disk.randwrite.iops", "random writes", "1/s", bench.Primary,
			"Writes of one block at random places "+within+"."),
		metric("disk.fsync.p50", "fsync", "s", bench.Primary,
			"From the call of fdatasync, after a write of one block through the page cache, to its return: median."),
		metric("disk.read.rate", "sequential read", "B/s", bench.Detail, "Bytes of sequential reads "+within+"."),
		metric("disk.write.rate", "sequential write", "B/s", bench.Detail, "Bytes of sequential writes "+within+"."),
	}
	for _, name := range []string{"randread", "randwrite", "read", "write", "fsync"} {
		for _, p := range disk.Percentiles() {
			if name == "fsync" && p == 50 {
				continue // above
			}
			title := fmt.Sprintf("%s, p%v", name, p)
			doc := fmt.Sprintf(
				"From just before a request is handed to the kernel until its completion is seen, with pattern "+
					"%s: percentile %v.",
				name, p)
			if name == "fsync" {
				doc = fmt.Sprintf("Like disk.fsync.p50: percentile %v.", p)
			}
			all = append(all, metric(disk.PercentileMetric(name, p), title, "s", bench.Detail, doc))
		}
	}
	all = bench.WithStretches(all, "disk.randread.iops")
	return append(all, supervise.Counters()...)
}

func metric(name, title, unit string, role bench.Role, doc string) bench.Metric {
	better := bench.Higher
	if unit == "s" {
		better = bench.Lower
	}
	return bench.Metric{Name: name, Title: title, Unit: unit, Better: better, Role: role, Scale: bench.Ratio, Doc: doc}
}

func (workload) Params() []bench.Param {
	param := func(name, def, doc string) bench.Param {
		return bench.Param{Name: name, Default: def, Doc: doc, Valid: func(v string) error { return disk.Valid(name, v) }}
	}
	return []bench.Param{
		param("patterns", "randread,read,randwrite,write,fsync", "patterns to run, one after the other"),
		param("block", "4KiB", "size of one request of randread, randwrite and fsync"),
		param("sequential_block", "128KiB", "size of one request of read and write"),
		param("depth", "32", "number of requests in flight; fsync has one"),
		param("size", "128MiB", "size of the file, which is written completely before anything is timed"),
		param("time", "300ms", "measured time of each pattern; a tenth of it is added as warm-up"),
		param("direct", "auto",
			"yes: bypass the page cache; no: use it; auto: bypass it if the file system can. fsync always uses it"),
		param("io", disk.Libaio,
			"how requests reach the kernel: io_uring, libaio, threads, or auto: the first of these that is allowed; "+
				"the seccomp profiles of engines forbid io_uring, but never libaio"),
		{Name: "tool", Default: "", Doc: "fio: use the host's fio, packed into an image, instead of the built-in " +
			"load", Valid: bench.OneOf("", fio.Name)},
	}
}

var fio = supervise.Program{Name: "fio", Package: "package fio"}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	if err := supervise.CheckOwn(disk.Name, t.Spec); err != nil {
		return err
	}
	if t.Params["tool"] == fio.Name {
		if err := fio.Find(); err != nil {
			return err
		}
	}
	_, err := planOf(t, bench.DataDir)
	return err
}

// optionsOf are the options of the load.
func optionsOf(t bench.Task, dir string) map[string]string {
	options := maps.Clone(t.Params)
	delete(options, "tool")
	options["dir"] = dir
	return options
}

// planOf returns the load's plan from its options.
func planOf(t bench.Task, dir string) (disk.Plan, error) {
	args, err := load.ParseArgs(load.Words(optionsOf(t, dir)))
	if err != nil {
		return disk.Plan{}, err
	}
	return disk.Read(args)
}

// specWithData returns the cell's Spec with a storage for the data: the container's own
// writable layer, if the cell names none.
func specWithData(t bench.Task) bench.Spec {
	spec := t.Spec
	if _, ok := bench.As[bench.DataKeeper](t.Engine); !ok && spec.Storage == "" {
		spec.Storage = "layer"
	}
	return spec
}
