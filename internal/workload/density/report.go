package density

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// calmTime is how long the containers may settle before the first reading.
const calmTime = 500 * time.Millisecond

// report reads the machine twice, at the beginning and end of the idle time.
func (f *fill) report(ctx context.Context, before usageSnapshot) error {
	if err := sleep(ctx, calmTime); err != nil {
		return err
	}
	if err := f.dropExited(ctx); err != nil {
		if err := f.endFull(ctx, err); err != nil {
			return err
		}
	}
	full, err := f.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	load, err := loadAverage()
	if err != nil {
		return err
	}
	began := f.meter.Now()
	if err := sleep(ctx, f.idle); err != nil {
		return err
	}
	idle, err := f.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	watched := f.meter.Now() - began
	f.record(before, full)
	engine := func(s usageSnapshot) time.Duration { return s.daemons.CPU + s.helpers.CPU }
	f.meter.Record(StartCPU, max(engine(full)-engine(before), 0).Seconds()/float64(len(f.residents)))
	f.meter.Record(IdleCPU, max(engine(idle)-engine(full), 0).Seconds()/watched.Seconds())
	f.meter.Record(Load, load)
	if err := f.dropExited(ctx); err != nil {
		return f.endFull(ctx, err) // the numbers cover those that ran at the time of the reading
	}
	return nil
}

func (f *fill) record(before, full usageSnapshot) {
	n := float64(len(f.residents))
	daemons := float64(full.daemons.PSS - before.daemons.PSS)
	inside, helpers := float64(full.inside.PSS), float64(full.helpers.PSS)
	f.meter.Record(Memory, (inside+helpers+daemons)/n)
	f.meter.Record(InsideMemory, inside/n)
	f.meter.Record(HelperMemory, helpers/n)
	f.meter.Record(DaemonMemory, daemons/n)
	if full.counted > 0 {
		f.meter.Record(CgroupMemory, float64(full.cgroups)/float64(full.counted))
	}
	f.meter.Record(HostMemory, float64(before.available-full.available)/n)
	f.meter.Record(Containers, n)
	f.meter.Record(FirstStart, f.residents[0].took.Seconds())
	f.meter.Record(LastStart, f.residents[len(f.residents)-1].took.Seconds())
	var all time.Duration
	for _, r := range f.residents {
		all += r.took
	}
	f.meter.Record(FillTime, all.Seconds())
	f.meter.Record(EachStart, slices.Sorted(slices.Values(f.starts))[len(f.starts)/2])
	f.meter.Series(EachStart, f.starts)
	f.meter.Series(HostMemory, f.shares)
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

// available returns how much memory the host has for new programs, in bytes.
func available() (int64, error) {
	s, err := snapshot(proc.Meminfo)
	if err != nil {
		return 0, err
	}
	if v := s[proc.MemoryAvailable]; !math.IsNaN(v) {
		return int64(v), nil
	}
	return 0, errors.New("/proc/meminfo does not say how much memory is available")
}

func loadAverage() (float64, error) {
	s, err := snapshot(proc.Loadavg)
	if err != nil {
		return 0, err
	}
	if v := s[proc.Load1]; !math.IsNaN(v) {
		return v, nil
	}
	return 0, errors.New("/proc/loadavg does not have the load")
}

func snapshot(source proc.Source) (s proc.Snapshot, err error) {
	sampler, err := proc.Open(root, source)
	if err != nil {
		return s, fmt.Errorf("read the host's counters: %w", err)
	}
	defer func() { _ = sampler.Close() }() // nothing was written
	sampler.Read(&s)
	return s, nil
}

// ended reports whether an error about a process says that it has ended.
func ended(err error) bool { return errors.Is(err, syscall.ESRCH) }
