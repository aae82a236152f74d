package run_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/schedule"
)

// eventLog is the order in which things happened.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (j *eventLog) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// engine does nothing but write down that it was asked.
type engine struct {
	name    string
	journal *eventLog
	prepare error
	away    func() bool // nil for an engine that is there
}

func (e *engine) Name() string                  { return e.name }
func (e *engine) Close(context.Context) error   { return nil }
func (e *engine) Restart(context.Context) error { e.journal.add("restart %s", e.name); return nil }

func (e *engine) Probe(context.Context) (bench.EngineInfo, error) {
	if e.away != nil && e.away() {
		return bench.EngineInfo{}, errors.New("away")
	}
	return bench.EngineInfo{}, nil
}

func (e *engine) Create(context.Context, bench.Spec) (bench.Container, error) {
	return nil, errors.New("the tests' workload makes no containers")
}

func (e *engine) Prepare(context.Context, bench.Spec) error {
	e.journal.add("prepare %s", e.name)
	return e.prepare
}

// workload calls a function.
type workload struct {
	run func(ctx context.Context, t bench.Task, m bench.Meter) error
}

func (workload) Name() string                            { return "test" }
func (workload) Doc() string                             { return "" }
func (workload) Check(context.Context, bench.Task) error { return nil }

func (workload) Params() []bench.Param {
	return []bench.Param{{Name: "size", Default: "1"}}
}

func (workload) Metrics() []bench.Metric {
	return []bench.Metric{
		{Name: "work", Unit: "s", Role: bench.Primary, Scale: bench.Ratio},
		{Name: "extra", Unit: "1", Role: bench.Detail, Scale: bench.Difference},
	}
}

func (workload) Notes() []bench.Note { return []bench.Note{{Code: "remarkable"}} }

func (w workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	return w.run(ctx, t, m)
}

// machine counts its looks, as an instrument.
type machine struct {
	journal *eventLog
	looks   float64
}

func (m *machine) Metrics() []bench.Metric              { return machineMetrics() }
func (m *machine) Begin(_ bench.Trial, _ time.Duration) { m.journal.add("before") }

func (m *machine) End(dst []float64) {
	m.journal.add("after")
	m.looks++
	dst[0], dst[1] = m.looks, math.NaN()
}

func (m *machine) Settle(context.Context, time.Duration) { m.journal.add("settle") }
func (m *machine) DropCaches(context.Context) error      { m.journal.add("drop caches"); return nil }

func machineMetrics() []bench.Metric {
	return []bench.Metric{{Name: "host.looks", Role: bench.Counter}, {Name: "host.nothing", Role: bench.State}}
}

// writer keeps samples, and can be told to fail.
type writer struct {
	journal *eventLog
	samples []bench.Sample
	end     *bench.End
	full    int // fail from this many samples on; 0 = never
}

var errDiskFull = errors.New("no space left")

func (w *writer) Append(ctx context.Context, s bench.Sample) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.full > 0 && len(w.samples) >= w.full {
		return errDiskFull
	}
	if s.Trial.Seq != len(w.samples) {
		return fmt.Errorf("sample %d appended at position %d", s.Trial.Seq, len(w.samples))
	}
	w.journal.add("store %s", s.Outcome)
	w.samples = append(w.samples, s)
	return nil
}

func (w *writer) Finish(_ context.Context, e bench.End) error { w.end = &e; return nil }
func (w *writer) Close() error                                { return nil }

// harness is everything that a test of the runner needs.
type harness struct {
	journal eventLog
	writer  *writer
	options run.Options
}

// newHarness makes a run of the given engines, one cell each, whose workload is f.
func newHarness(
	t *testing.T, p bench.Plan, f func(ctx context.Context, t bench.Task, m bench.Meter) error, engines ...string,
) *harness {
	t.Helper()
	b := &harness{}
	p.TrialTime, p.OpTime = or(p.TrialTime, time.Minute), or(p.OpTime, 10*time.Second)
	p.Washout = or(p.Washout, time.Second)
	all := map[string]bench.Engine{}
	for _, name := range engines {
		all[name] = &engine{name: name, journal: &b.journal}
		p.Cells = append(p.Cells, bench.Cell{Name: name, Engine: name})
	}
	b.writer = &writer{journal: &b.journal}
	w := workload{f}
	m := &machine{journal: &b.journal}
	began := time.Now()
	b.options = run.Options{
		Header: bench.Header{
			Plan: p, Schedule: schedule.Blocks(p),
			Metrics: append(w.Metrics(), machineMetrics()...),
		},
		Workload: w, Engines: all, Writer: b.writer, Machine: m, Instruments: []bench.Instrument{m},
		Clock: func() time.Duration { return time.Since(began) }, Now: time.Now,
	}
	return b
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// work is a workload that takes a time and measures it.
func work(d time.Duration) func(context.Context, bench.Task, bench.Meter) error {
	return func(_ context.Context, _ bench.Task, m bench.Meter) error {
		return timed(m, func() error { time.Sleep(d); return nil })
	}
}

// timed reports how long something took as the metric of the test's workload.
func timed(m bench.Meter, op func() error) error {
	span, err := m.Step("work", op)
	if err == nil {
		m.Record("work", span.Duration().Seconds())
	}
	return err
}

func outcomes(samples []bench.Sample) map[bench.Outcome]int {
	n := map[bench.Outcome]int{}
	for _, s := range samples {
		n[s.Outcome]++
	}
	return n
}
