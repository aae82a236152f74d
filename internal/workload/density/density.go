// Package density is the workload that fills a host with containers: how many fit, and
// what memory and CPU time each one needs besides the process inside.
package density

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// The names of the metrics.
const (
	Memory       = "memory"
	CgroupMemory = "memory.cgroup"
	InsideMemory = "memory.inside"
	HelperMemory = "memory.helpers"
	DaemonMemory = "memory.daemons"
	HostMemory   = "memory.host"
	EachStart    = "start.each"
	Containers   = "containers"
	FirstStart   = "start.first"
	LastStart    = "start.last"
	FillTime     = "fill"
	StartCPU     = "cpu.start"
	IdleCPU      = "cpu.idle"
	Load         = "load"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return "density" }

func (workload) Doc() string {
	return "Containers started one after the other up to a number: memory and CPU time of each container, its shim " +
		"and the daemons."
}

// StartTimes implements bench.Starter.
func (workload) StartTimes() []string { return []string{EachStart, FirstStart, LastStart, FillTime} }

func (workload) Metrics() []bench.Metric {
	m := func(name, title, u string, better bench.Direction, role bench.Role, doc string) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: u, Better: better, Role: role, Scale: bench.Difference, Doc: doc}
	}
	primary := m(Memory, "memory per container", "B", bench.Lower, bench.Primary,
		"Proportional set size (smaps_rollup) of the processes inside and their shims, plus the growth of the daemons, "+
			"divided by the number of containers.")
	primary.Scale = bench.Ratio
	return []bench.Metric{
		primary,
		m(InsideMemory, "inside", "B", bench.Lower, bench.Detail,
			"Proportional set size of the processes inside, per container."),
		m(HelperMemory, "shims", "B", bench.Lower, bench.Detail,
			"Proportional set size of processes that serve one container alone (shims, monitors), found by "+
				"process tree, per container."),
		m(DaemonMemory, "growth of daemons", "B", bench.Lower, bench.Detail,
			"Growth of the proportional set size of the engine's daemons while the containers were started, per container."),
		m(CgroupMemory, "memory of the cgroup", "B", bench.Lower, bench.Detail,
			"Memory that the kernel accounts to the container's own cgroup, with kernel memory and page cache; "+
				"mean over the containers."),
		m(HostMemory, "memory of the host", "B", bench.Lower, bench.Detail,
			"Decrease of the host's MemAvailable while the containers were started, per container."),
		m(Containers, "containers", "1", bench.Higher, bench.Detail, "How many containers ran at the end."),
		m(FirstStart, "start of the first", "s", bench.Lower, bench.Detail, "Create and start of the first container."),
		m(LastStart, "start of the last", "s", bench.Lower, bench.Detail, "Create and start of the last container."),
		m(EachStart, "start of each", "s", bench.Lower, bench.Detail,
			"Create and start of a container: the median; the series has each one, in order."),
		m(FillTime, "start of all", "s", bench.Lower, bench.Detail, "Create and start of all containers, summed."),
		m(StartCPU, "CPU time of the engine per start", "s", bench.Lower, bench.Detail,
			"CPU time of daemons and shims, with the children that they waited for, from before the first to "+
				"after the last start, per container."),
		m(IdleCPU, "CPU of the engine while idle", "1", bench.Lower, bench.Detail,
			"CPU time of daemons and shims per second while all containers run and nothing happens: 0.01 is one "+
				"percent of one CPU."),
		m(Load, "load", "1", bench.Neither, bench.Detail,
			"The kernel's one-minute load average when all containers ran."),
	}
}

// NoteFull marks a sample whose host was filled until a container could not be
// started, or ended by itself.
const NoteFull = "full"

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{{
		Code:   NoteFull,
		Text:   "the host was filled with {cells} until a container could not be started, or ended by itself",
		Advice: "here the number of containers is a result",
	}}
}

const (
	maxCount   = 10_000
	untilCount = "count"
	untilFail  = "failure"
)

func (workload) Params() []bench.Param {
	return []bench.Param{
		{Name: "count", Default: "20", Valid: bench.Between(1, maxCount), Doc: "number of containers to start"},
		{
			Name: "until", Default: untilCount, Valid: bench.OneOf(untilCount, untilFail),
			Doc: "what a container means that cannot be " +
				"started or ends by itself: " +
				"count: the trial has failed; failure: the host is full, and the number of containers is a result",
		},
		{
			Name: "host_memory", Default: "0", Valid: bench.Between(0, 1<<50),
			Doc: "stop when the host's available memory has " +
				"fallen by this many bytes; 0: no limit",
		},
		{
			Name: "limit", Default: "0", Valid: validLimit,
			Doc: "memory limit of each container, such as 50MB; 0: the cell's own",
		},
		{
			Name: "idle", Default: "2s", Valid: bench.DurationBetween(100*time.Millisecond, time.Minute),
			Doc: "how long to watch daemons and shims while nothing " +
				"happens",
		},
	}
}

// minLimit is the least memory limit that engines take: Docker's own.
const minLimit = 6 << 20

func validLimit(s string) error {
	_, err := limitOf(s)
	return err
}

// limitOf reads a memory limit in bytes; 0 = none.
func limitOf(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	n, err := unit.ParseBytes(s)
	if err != nil || n < minLimit {
		return 0, fmt.Errorf("%.40q is not a size of at least 6MiB, such as 50MB, or 0", s)
	}
	return n, nil
}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	if _, ok := bench.As[bench.ProcessReporter](t.Engine); !ok {
		return fmt.Errorf("%w: engine %s does not tell which processes are its own", bench.ErrUnsupported, t.Engine.Name())
	}
	return nil
}

// Setup implements bench.Fixturer. The engine prepares bundles and images before each
// trial, so that no number includes them.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	return preparedFixture{t}, nil
}

type preparedFixture struct{ task bench.Task }

func (s preparedFixture) Reset(ctx context.Context) error {
	n, _ := strconv.Atoi(s.task.Params["count"]) // was validated
	spec, err := specOf(s.task)
	if err != nil {
		return err
	}
	for range n {
		if err := s.task.Engine.Prepare(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

func (preparedFixture) Remove(context.Context) error { return nil }

// specOf returns the Spec of the containers.
func specOf(t bench.Task) (bench.Spec, error) {
	spec := holdSpec(t.Spec)
	limit, err := limitOf(t.Params["limit"])
	if limit > 0 {
		spec.Limits.Memory = limit
	}
	return spec, err
}

// holdSpec returns spec with a process that does not end, if the image is tare's own.
func holdSpec(spec bench.Spec) bench.Spec {
	if len(spec.Argv) == 0 && (spec.Image == "" || spec.Image == bench.AgentImage) {
		spec.Argv = []string{agent.Path, "hold"}
	}
	return spec
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	f, err := newFill(t, m)
	if err != nil {
		return err
	}
	defer f.empty()
	before, err := f.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	if err := f.start(ctx, before); err != nil {
		return err
	}
	return f.report(ctx, before)
}

// helpers is the number of containers that are removed at once. batch is the number that
// one clean-up removes, because the time of a clean-up is limited.
const (
	helpers = 4
	batch   = 40
)

// empty removes every container, untimed.
func (f *fill) empty() {
	for len(f.made) > 0 {
		some := f.made[:min(batch, len(f.made))]
		f.made = f.made[len(some):]
		f.meter.Cleanup(func(ctx context.Context) error { return removeAll(ctx, f.engine, some) })
	}
}

func removeAll(ctx context.Context, e bench.Engine, all []bench.Container) error {
	errs := make([]error, len(all))
	slots := make(chan struct{}, helpers)
	var workers sync.WaitGroup
	for i, c := range all {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			errs[i] = bench.Dispose(ctx, e, c)
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
