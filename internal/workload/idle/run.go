package idle

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"syscall"
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
	if err := bench.Sleep(ctx, calm); err != nil {
		return err
	}
	daemons, err := daemonsOf(ctx, t.Engine)
	if err != nil {
		return err
	}
	before, err := read(m)
	if err != nil {
		return err
	}
	used, err := watch(ctx, watched, lookAtMemory)
	if err != nil {
		return err
	}
	after, err := read(m)
	if err != nil {
		return err
	}
	recordWork(m, before, after, daemons)
	if err := recordMemory(m, used, daemons); err != nil {
		return err
	}
	return recordDisk(ctx, t.Engine, m)
}

// looks is how often the memory is read while the machine is watched.
const looks = 10

// A use is the memory in use at one moment, in bytes. What the kernel does not tell is NaN.
type use struct {
	machine float64 // without tare's own
	kernel  float64 // the kernel's, of which it cannot give up any
}

// lookAtMemory reads tare's own memory right beside the machine's, because tare's changes while it watches.
func lookAtMemory() (use, error) {
	own, err := ownMemory()
	if err != nil {
		return use{}, err
	}
	now, err := proc.Memory(root)
	return use{now.Total - now.Available - own, now.Kernel}, err
}

// ownOf returns tare's process and its descendants: what it runs, such as the service of an engine that has none.
func ownOf(tree proc.Tree) []int { return tree.Descendants(os.Getpid(), nil) }

// ownMemory returns how many bytes tare and its descendants use.
func ownMemory() (float64, error) {
	all, err := proc.All(root)
	if err != nil {
		return 0, err
	}
	var sum proc.Usage
	for _, pid := range ownOf(proc.NewTree(all)) {
		one, err := proc.UsageOf(root, pid)
		switch {
		case hasEnded(err), errors.Is(err, fs.ErrPermission) && pid != os.Getpid():
			continue
		case err != nil:
			return 0, err
		}
		sum = sum.Plus(one)
	}
	return float64(sum.PSS), nil
}

// hasEnded reports whether a process could not be looked at because it has ended.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// watch waits, and returns the memory in use meanwhile: the mean of some looks, so that a process that comes
// and goes counts only for the time that it is there.
func watch(ctx context.Context, d time.Duration, look func() (use, error)) (mean use, err error) {
	for range looks {
		if err := bench.Sleep(ctx, d/looks); err != nil {
			return mean, err
		}
		now, err := look()
		if err != nil {
			return mean, err
		}
		mean.machine += now.machine / looks
		mean.kernel += now.kernel / looks
	}
	return mean, nil
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
	seen, own := map[int]bool{}, map[int]bool{}
	for _, pid := range ownOf(of) {
		own[pid] = true
	}
	for _, daemon := range d.pids {
		for _, pid := range of.Descendants(daemon, own) {
			if !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// A reading is what every thread has done until a moment.
type reading struct {
	at   time.Duration
	done map[thread]proc.OnCPU
	tree proc.Tree
}

// A thread is known by its number, and that and the start of its process, since numbers are used again.
type thread struct {
	pid   int
	start uint64
	tid   int
}

// read looks at every thread but tare's own. What that costs is tare's own, too.
func read(clock bench.Clock) (reading, error) {
	all, err := proc.All(root)
	if err != nil {
		return reading{}, err
	}
	r := reading{clock.Now(), map[thread]proc.OnCPU{}, proc.NewTree(all)}
	own := ownOf(r.tree)
	for _, p := range all {
		if slices.Contains(own, p.PID) {
			continue
		}
		threads, err := proc.OnCPUOf(root, p.PID)
		if hasEnded(err) {
			continue
		}
		if err != nil {
			return reading{}, err
		}
		for tid, done := range threads {
			r.done[thread{p.PID, p.Start, tid}] = done
		}
	}
	return r, nil
}

// since returns what a thread has done since a reading, all of it if it began later. A thread that has done
// less than before is another one that has its number.
func (r reading) since(t thread, now proc.OnCPU) proc.OnCPU {
	before := r.done[t]
	if now.Time < before.Time || now.Times < before.Times {
		return now
	}
	return now.Minus(before)
}

// recordWork reports what was done between two readings, per second. A thread that began meanwhile counts as
// a whole; one that has ended does not count, nor what it had done before. What the kernel does not tell is
// missing; if it does not count, it may say 0 for all threads since they began.
func recordWork(to bench.Recorder, before, after reading, d daemons) {
	seconds := (after.at - before.at).Seconds()
	ofEngine := map[int]bool{}
	for _, pid := range d.all(after.tree) {
		ofEngine[pid] = true
	}
	var whole, engine, ever proc.OnCPU
	for t, now := range after.done {
		ever = ever.Plus(now)
		grown := before.since(t, now)
		whole = whole.Plus(grown)
		if ofEngine[t.pid] {
			engine = engine.Plus(grown)
		}
	}
	rate := func(metric string, amount float64) {
		if !math.IsNaN(amount) && seconds > 0 && ever != (proc.OnCPU{}) {
			to.Record(metric, amount/seconds)
		}
	}
	rate(Wakeups, whole.Times)
	rate(CPU, whole.Time)
	if d.known {
		rate(EngineWakeups, engine.Times)
		rate(EngineCPU, engine.Time)
	}
}

// recordMemory reports the memory that was in use, and the processes and what the engine has as they are now.
func recordMemory(to bench.Recorder, used use, d daemons) error {
	all, err := proc.All(root)
	if err != nil {
		return err
	}
	tree := proc.NewTree(all)
	if !math.IsNaN(used.machine) {
		to.Record(Memory, used.machine)
	}
	if !math.IsNaN(used.kernel) {
		to.Record(KernelMemory, used.kernel)
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
		switch {
		case hasEnded(err):
			continue
		case errors.Is(err, fs.ErrPermission):
			return nil // an ordinary user may not look at another one's daemon
		case err != nil:
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
	return len(all) - threads - len(ownOf(tree)), threads
}
