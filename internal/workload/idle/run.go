package idle

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// root is the directory that has the kernel's files.
const root = "/"

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	calm, err := time.ParseDuration(t.Params["calm"])
	if err != nil {
		return err
	}
	watched, err := time.ParseDuration(t.Params["time"])
	if err != nil {
		return err
	}
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	kernel, err := proc.Open(root, proc.Stat, proc.Schedstat) // not every kernel has the second
	if err != nil {
		return err
	}
	defer func() { _ = kernel.Close() }() // it was only read
	daemons, err := daemonsOf(ctx, t.Engine)
	if err != nil {
		return err
	}
	w := watch{clock: m, kernel: kernel, daemons: daemons}
	before, err := w.read()
	if err != nil {
		return err
	}
	if err := sleep(ctx, watched); err != nil {
		return err
	}
	after, err := w.read()
	if err != nil {
		return err
	}
	recordWork(m, before, after)
	if err := recordMemory(m, daemons); err != nil {
		return err
	}
	return recordDisk(ctx, t.Engine, m)
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// daemonsOf returns the long-lived processes of an engine. One that does not tell has none that are
// known, so all of its numbers are missing.
func daemonsOf(ctx context.Context, e bench.Engine) (daemons, error) {
	reporter, ok := bench.As[bench.ProcessReporter](e)
	if !ok {
		return daemons{}, nil
	}
	pids, err := reporter.Daemons(ctx)
	if errors.Is(err, bench.ErrUnsupported) {
		return daemons{}, nil
	}
	return daemons{known: err == nil, pids: pids}, err
}

// daemons are the roots of the process trees of an engine.
type daemons struct {
	known bool
	pids  []int
}

// all returns the daemons with their present descendants, without tare's own process and what it runs.
func (d daemons) all(of proc.Tree) (pids []int) {
	seen, not := map[int]bool{}, map[int]bool{os.Getpid(): true}
	for _, daemon := range d.pids {
		for _, pid := range of.Descendants(daemon, not) {
			if !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// A watch reads what the machine has done so far.
type watch struct {
	clock   bench.Clock
	kernel  *proc.Sampler
	daemons daemons
}

// A reading is what the machine has done until a moment.
type reading struct {
	at     time.Duration
	whole  proc.Snapshot
	own    proc.OnCPU
	engine map[int]proc.OnCPU // by process; nil = unknown
}

// read takes the counts of the machine last: what reading costs is tare's own and is subtracted, but
// the less of it lies between two readings, the better.
func (w *watch) read() (r reading, err error) {
	if w.daemons.known {
		all, err := proc.All(root)
		if err != nil {
			return r, err
		}
		r.engine = map[int]proc.OnCPU{}
		for _, pid := range w.daemons.all(proc.NewTree(all)) {
			one, err := proc.OnCPUOf(root, pid)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return r, err
			}
			r.engine[pid] = one
		}
	}
	if r.own, err = proc.OnCPUOf(root, os.Getpid()); err != nil {
		return r, err
	}
	r.at = w.clock.Now()
	w.kernel.Read(&r.whole)
	return r, nil
}

// recordWork reports what was done between two readings, per second. What the kernel does not count is
// missing.
func recordWork(to bench.Recorder, before, after reading) {
	seconds := (after.at - before.at).Seconds()
	rate := func(metric string, amount float64) {
		if !math.IsNaN(amount) && seconds > 0 {
			to.Record(metric, max(amount, 0)/seconds)
		}
	}
	grown := func(f proc.Field) float64 { return after.whole[f] - before.whole[f] }
	own := after.own.Minus(before.own)
	rate(Wakeups, grown(proc.Timeslices)-own.Times)
	rate(CPU, grown(proc.CPUTime)-own.Time)
	if after.engine == nil {
		return
	}
	var engine proc.OnCPU
	for pid, now := range after.engine {
		engine = engine.Plus(now.Minus(before.engine[pid]))
	}
	rate(EngineWakeups, engine.Times)
	rate(EngineCPU, engine.Time)
}

// recordMemory reports the memory in use and the processes, as they are now.
func recordMemory(to bench.Recorder, d daemons) error {
	used, err := proc.Memory(root)
	if err != nil {
		return err
	}
	all, err := proc.All(root)
	if err != nil {
		return err
	}
	own, err := proc.UsageOf(root, os.Getpid())
	if err != nil {
		return err
	}
	tree := proc.NewTree(all)
	if v := used.Total - used.Available - float64(own.PSS); !math.IsNaN(v) {
		to.Record(Memory, v)
	}
	if !math.IsNaN(used.Kernel) {
		to.Record(KernelMemory, used.Kernel)
	}
	programs, threads := count(all, tree)
	to.Record(Processes, float64(programs))
	to.Record(KernelThreads, float64(threads))
	if !d.known {
		return nil
	}
	var engine proc.Usage
	for _, pid := range d.all(tree) {
		one, err := proc.UsageOf(root, pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		engine = engine.Plus(one)
	}
	to.Record(EngineMemory, float64(engine.PSS))
	return nil
}

// count returns the number of processes that are not of tare, and that of the kernel's threads.
func count(all []proc.Process, tree proc.Tree) (programs, threads int) {
	for _, p := range all {
		if p.Kernel {
			threads++
		}
	}
	return len(all) - threads - len(tree.Descendants(os.Getpid(), nil)), threads
}
