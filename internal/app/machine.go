package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/syscalls"
	"github.com/tare-bench/tare/internal/kernel/trace"
	"github.com/tare-bench/tare/internal/run"
)

// machine is this host, as a run needs it.
type machine struct {
	counters    *host.Counters
	washout     *host.Washout
	warmUp      func()            // ends each washout; see warming
	callCounter *syscalls.Counter // nil where system calls are not counted
	tracer      *trace.Tracer     // nil where no trial is traced
}

var _ run.Machine = machine{}

func openMachine() (machine, error) {
	c, err := host.OpenCounters(fsRoot)
	if err != nil {
		return machine{}, err
	}
	w, err := host.OpenWashout(fsRoot)
	if err != nil {
		return machine{}, errors.Join(err, c.Close())
	}
	return machine{counters: c, washout: w, warmUp: func() {}}, nil
}

// instruments are what watches each trial, the host's counters nearest to it.
func (m machine) instruments() (all []bench.Instrument) {
	if m.tracer != nil {
		all = append(all, m.tracer)
	}
	if m.callCounter != nil {
		all = append(all, m.callCounter)
	}
	return append(all, m.counters)
}

// Metrics are those of the instruments.
func (m machine) Metrics() (all []bench.Metric) {
	for _, i := range m.instruments() {
		all = append(all, i.Metrics()...)
	}
	return all
}

// Settle waits for as long as it may: a machine that does not become quiet is
// what the counters and the noise floor are there to show.
func (m machine) Settle(ctx context.Context, limit time.Duration) {
	m.washout.Settle(ctx, limit)
	m.warmUp()
}

// warmUpProcess returns what starts one process that ends at once. What a trial finds
// in the processor's caches is otherwise what the trial before it left there,
// which nothing that is compared decides: a plain process took 0.27 ms after
// another one and 0.37 after docker (docs/decisions/008).
func warmUpProcess(ctx context.Context, images *image.Library) func() {
	img, err := images.Resolve(ctx, image.Agent)
	if err != nil {
		return func() {} // a trial that needs the image will fail and say so
	}
	root, err := img.Rootfs(ctx)
	if err != nil {
		return func() {}
	}
	program := filepath.Join(root, agent.Path)
	return func() {
		p, err := os.StartProcess(program, []string{agent.Path, "exit", "0"}, &os.ProcAttr{Env: []string{}})
		if err == nil {
			_, _ = p.Wait() // it did its work by starting
		}
	}
}

func (m machine) DropCaches(ctx context.Context) error { return host.DropCaches(ctx) }

// Close closes the kernel's files, which were only read, and stops counting and tracing, which would
// otherwise stop when tare ends.
func (m machine) Close() {
	_ = errors.Join(m.counters.Close(), m.washout.Close(), m.stopCalls(), m.stopTracing())
}

// mountsBelow lists what is mounted at or below a directory.
func mountsBelow(dir string) ([]string, error) {
	mounts, err := proc.Mounts(fsRoot, 0)
	if err != nil {
		return nil, err
	}
	var below []string
	for _, m := range mounts {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			below = append(below, m.Point)
		}
	}
	return below, nil
}
