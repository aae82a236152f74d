package density

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// fill is the state of one trial.
type fill struct {
	meter    bench.Meter
	engine   bench.Engine
	reporter bench.ProcessReporter
	spec     bench.Spec

	count  int
	until  string
	memory int64 // bytes by which the host's available memory may fall; 0 = no limit
	idle   time.Duration

	made      []bench.Container // to be removed
	residents []resident        // that are running
	noted     bool

	starts []float64 // seconds that the n-th container took to create and start
	shares []float64 // bytes of the host that each of n containers took, after the n-th
}

// A resident is a container that was started and has not ended.
type resident struct {
	container bench.Container
	first     proc.Process
	took      time.Duration // to create and start it
}

func newFill(t bench.Task, m bench.Meter) (*fill, error) {
	f := &fill{meter: m, engine: t.Engine, until: t.Params["until"]}
	var errs [4]error
	f.count, errs[0] = strconv.Atoi(t.Params["count"])
	f.memory, errs[1] = strconv.ParseInt(t.Params["host_memory"], 10, 64)
	f.idle, errs[2] = time.ParseDuration(t.Params["idle"])
	f.spec, errs[3] = specOf(t)
	f.reporter, _ = bench.As[bench.ProcessReporter](t.Engine) // Check made sure of it
	return f, errors.Join(errs[:]...)
}

// start starts containers until there are enough.
func (f *fill) start(ctx context.Context, before usageSnapshot) error {
	for len(f.residents) < f.count {
		if err := f.startNext(ctx); err != nil {
			return f.endFull(ctx, err)
		}
		now, err := available()
		if err != nil {
			return err
		}
		f.shares = append(f.shares, float64(before.available-now)/float64(max(len(f.residents), 1)))
		if f.memory > 0 && before.available-now >= f.memory {
			return nil
		}
	}
	return nil
}

// endFull handles a container that could not be started or ended by itself: with option
// until=failure that is the result, otherwise the trial fails.
func (f *fill) endFull(ctx context.Context, why error) error {
	if f.until != untilFail || len(f.residents) == 0 || ctx.Err() != nil {
		return why
	}
	if !f.noted {
		f.meter.Note(NoteFull)
		f.noted = true
	}
	return nil
}

// startNext starts one more container. From time to time it checks that all are still
// running: checking each time would cost more than the containers if there are thousands.
func (f *fill) startNext(ctx context.Context) error {
	if err := f.startOne(ctx); err != nil {
		return f.numbered(len(f.residents), err)
	}
	if last := f.residents[len(f.residents)-1]; last.runs() && len(f.residents)%lookEvery != 0 {
		return nil
	}
	return f.dropExited(ctx)
}

// lookEvery is the number of starts between two checks of all containers.
const lookEvery = 10

func (f *fill) numbered(i int, err error) error {
	return fmt.Errorf("container %d of %d: %w", i+1, f.count, err)
}

// startOne starts one container. Only the first one is attested: the engine treats the others
// alike.
func (f *fill) startOne(ctx context.Context) error {
	var c bench.Container
	created, err := f.meter.Step("create", func() (err error) {
		c, err = f.engine.Create(ctx, f.spec)
		return err
	})
	if err != nil {
		return err
	}
	f.made = append(f.made, c)
	if len(f.made) == 1 {
		if err := f.attest(ctx, c); err != nil {
			return err
		}
	}
	started, err := f.meter.Step("start", func() error { return c.Start(ctx) })
	if err != nil {
		return err
	}
	var first proc.Process
	_, err = f.meter.Step("look", func() (err error) { first, err = f.firstProcess(ctx, c); return err })
	if err != nil {
		return err
	}
	took := created.Duration() + started.Duration()
	f.residents = append(f.residents, resident{c, first, took})
	f.starts = append(f.starts, took.Seconds())
	return nil
}

// firstProcess returns the first process of a started container.
func (f *fill) firstProcess(ctx context.Context, c bench.Container) (proc.Process, error) {
	pid, err := f.reporter.Pid(ctx, c)
	if errors.Is(err, bench.ErrUnsupported) {
		return proc.Process{}, err
	}
	if err == nil {
		p, err := proc.Find(root, pid)
		if err == nil {
			return p, nil
		}
	}
	return proc.Process{}, howEnded(ctx, c)
}

// dropExited removes the containers that have ended by themselves from the list of running
// ones. Its error is that of the first one; if the host is out of memory, the kernel may
// kill any of them.
func (f *fill) dropExited(ctx context.Context) (err error) {
	var left []resident
	for i, r := range f.residents {
		switch {
		case r.runs():
			left = append(left, r)
		case err == nil:
			err = f.numbered(i, howEnded(ctx, r.container))
		}
	}
	f.residents = left
	return err
}

func (r resident) runs() bool {
	now, err := proc.Find(root, r.first.PID)
	return err == nil && now.Start == r.first.Start && now.State != 'Z'
}

// howEnded returns the error of a container that should run but does not.
func howEnded(ctx context.Context, c bench.Container) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	exit, err := c.Wait(ctx)
	if err != nil {
		return fmt.Errorf("ended by itself after start: %w", err)
	}
	return fmt.Errorf("ended by itself after start: %v", exit)
}

func (f *fill) attest(ctx context.Context, c bench.Container) error {
	_, err := f.meter.Step("inspect", func() error {
		applied, err := c.Inspect(ctx)
		if err != nil {
			return err
		}
		return f.meter.Applied(f.spec, applied)
	})
	return err
}

// A usageSnapshot is one reading of the machine.
type usageSnapshot struct {
	daemons, helpers, inside proc.Usage
	cgroups                  int64 // bytes in the cgroups of the containers
	counted                  int   // containers with a cgroup of their own
	available                int64 // bytes of the host's memory
}

// root is the directory that has the kernel's files.
const root = "/"

// takeSnapshot sums the usage of the daemons, the shims and the processes inside.
func (f *fill) takeSnapshot(ctx context.Context) (usageSnapshot, error) {
	var s usageSnapshot
	daemons, err := f.reporter.Daemons(ctx)
	if err != nil {
		return s, err
	}
	var firsts []int
	for _, r := range f.residents {
		firsts = append(firsts, r.first.PID)
	}
	all, err := proc.All(root)
	if err != nil {
		return s, err
	}
	p := engineProcessesOf(proc.NewTree(all), daemons, firsts, os.Getpid())
	var errs [3]error
	s.daemons, errs[0] = sum(p.daemons)
	s.helpers, errs[1] = sum(p.helpers)
	s.inside, errs[2] = sum(p.inside)
	s.cgroups, s.counted = groupMemory(firsts)
	if s.available, err = available(); err != nil {
		return s, err
	}
	return s, errors.Join(errs[:]...)
}

// engineProcesses are the processes that belong to an engine.
type engineProcesses struct{ daemons, helpers, inside []int }

// engineProcessesOf sorts processes by what they serve. Descendants of a container's first process
// are inside. Its ancestors, up to a daemon, to tare itself or to the machine's first
// process, are helpers of that container. Other descendants of a daemon belong to the
// daemons.
func engineProcessesOf(t proc.Tree, daemons, firsts []int, self int) engineProcesses {
	var p engineProcesses
	not := map[int]bool{self: true}
	for _, d := range daemons {
		not[d] = true
	}
	seen := map[int]bool{}
	add := func(to *[]int, pids []int) {
		for _, pid := range pids {
			if !seen[pid] {
				seen[pid] = true
				*to = append(*to, pid)
			}
		}
	}
	for _, first := range firsts {
		add(&p.inside, t.Descendants(first, nil))
	}
	for _, first := range firsts {
		for _, above := range t.Ancestors(first, not) {
			add(&p.helpers, t.Descendants(above, not))
		}
	}
	for _, d := range daemons {
		add(&p.daemons, t.Descendants(d, nil))
	}
	return p
}

// sum adds up the usage of processes. Processes that have ended count as zero.
func sum(pids []int) (proc.Usage, error) {
	var total proc.Usage
	for _, pid := range pids {
		u, err := proc.UsageOf(root, pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !ended(err) {
			return total, err
		}
		total = total.Plus(u)
	}
	return total, nil
}

// groupMemory sums the memory of the cgroups of processes, except tare's own.
func groupMemory(pids []int) (bytes int64, counted int) {
	h, err := cgroup.Detect(root)
	if err != nil {
		return 0, 0
	}
	own, err := h.PathOf(0)
	if err != nil {
		return 0, 0
	}
	for _, pid := range pids {
		paths, err := h.PathOf(pid)
		if err != nil {
			continue
		}
		key := "memory"
		if _, ok := paths[key]; !ok {
			key = "" // version 2
		}
		if paths[key] == own[key] {
			continue
		}
		if stat, err := h.Stat(paths[key]); err == nil && stat.MemoryCurrent != cgroup.Absent {
			bytes, counted = bytes+stat.MemoryCurrent, counted+1
		}
	}
	return bytes, counted
}
