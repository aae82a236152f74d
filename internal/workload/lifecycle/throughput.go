package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// Rate and Errors are the metrics of throughput that are not of an operation.
const (
	Rate   = "rate"
	Errors = "errors"
)

// NewThroughput returns the workload that takes many containers through their
// lives at once.
func NewThroughput() bench.Workload { return throughput{} }

type throughput struct{}

func (throughput) Name() string { return "throughput" }

func (throughput) Doc() string {
	return "Containers per second: lanes side by side, each taking one container after the other through the same operations."
}

// percentiles are those reported of each operation's times in one trial.
func percentiles() []float64 { return []float64{0.5, 0.9, 0.99} }

// beyond is how many values must lie beyond a percentile that is told: of five
// containers the 99th percentile would be the slowest, and chance.
const beyond = 10

func percentileName(metric string, p float64) string {
	return fmt.Sprintf("%s.p%g", metric, p*100)
}

func (throughput) Metrics() []bench.Metric {
	all := []bench.Metric{{
		Name: Rate, Title: "containers per second", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio,
		Doc: "Containers that went through all operations, divided by the time from the begin of the first to the end of the last. Preparing bundles and images is not in it. Before a stop, a look whether a program that is not tare's own still runs is in it.",
	}, {
		Name: Errors, Title: "containers that failed", Unit: "1", Better: bench.Lower, Role: bench.Detail, Scale: bench.Difference,
		Doc: "Containers of which an operation failed. Their times are in no other number.",
	}}
	for _, m := range append([]bench.Metric{second(Total, "whole life", bench.Detail, bench.Difference, "All operations of one container added up.")}, operationMetrics()...) {
		if m.Name == Exit {
			continue // nobody listens to the process inside
		}
		for _, p := range percentiles() {
			all = append(all, bench.Metric{
				Name: percentileName(m.Name, p), Title: fmt.Sprintf("%s, p%g", m.Title, p*100), Unit: m.Unit, Better: m.Better, Role: bench.Detail, Scale: bench.Difference,
				Doc: fmt.Sprintf("%s Percentile %g of the containers of a trial, where at least 10 lie beyond it.", m.Doc, p*100),
			})
		}
	}
	return all
}

const (
	maxConcurrency = 1024
	maxIterations  = 10_000
)

// Notes implements bench.Noter.
func (throughput) Notes() []bench.Note {
	return append(workload{}.Notes(), bench.Note{
		Code: NoteLostContainers,
		Text: "some containers of {cells} failed: they are counted, and their times are in no number",
		Advice: "see why: take fewer at once, or run the same operations with workload lifecycle, which says " +
			"what failed",
	})
}

func (throughput) Params() []bench.Param {
	return append(
		lifeParams(),
		bench.Param{Name: "concurrency", Default: "1", Valid: between(1, maxConcurrency), Doc: "how many lanes there are side by side"},
		bench.Param{Name: "iterations", Default: "10", Valid: between(1, maxIterations), Doc: "how many containers each lane takes through the operations in one trial"},
	)
}

// Check implements bench.Workload.
func (throughput) Check(ctx context.Context, t bench.Task) error {
	_, err := newLife(ctx, t)
	return err
}

// Setup implements bench.Fixturer.
func (throughput) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	return staging{t}, nil
}

// staging has the engine prepare every container of a trial before it begins,
// so that what a runtime knows nothing of (unpacking, overlay mounts) is in no
// number. Engines for which once is enough make little of being asked again.
type staging struct{ task bench.Task }

func (s staging) Reset(ctx context.Context) error {
	l, err := newLife(ctx, s.task)
	if err != nil {
		return err
	}
	for range 1 + number(s.task, "concurrency")*number(s.task, "iterations") {
		if err := s.task.Engine.Prepare(ctx, l.spec); err != nil {
			return err
		}
	}
	return nil
}

func (staging) Remove(context.Context) error { return nil }

// Run lets the lanes go. One container before them is looked at, untimed: what
// the engine applied to it, it applies to the others.
func (throughput) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	first := newLane(m, t.OpTime)
	_, err := first.live(ctx, t, m.Applied)
	if err := errors.Join(err, first.failed); err != nil {
		return err
	}
	lanes := make([]*lane, number(t, "concurrency"))
	for i := range lanes {
		lanes[i] = newLane(m, t.OpTime)
	}
	// The runner keeps tare to one processor of Go's scheduler. Where tare is the engine
	// itself (native, floor), its lanes would wait for one another there; all cells are alike.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(len(lanes), runtime.NumCPU())))
	begin := m.Now()
	var all sync.WaitGroup
	for _, l := range lanes {
		all.Go(func() { l.run(ctx, t, number(t, "iterations")) })
	}
	all.Wait()
	return conclude(ctx, m, lanes, m.Now()-begin)
}

// conclude reports what the lanes found. A trial of which no container came
// through, that was cut short, or that could not remove one has failed.
func conclude(ctx context.Context, to bench.Recorder, lanes []*lane, took time.Duration) error {
	all := join(lanes)
	if ctx.Err() != nil || all.through == 0 || all.failed != nil {
		return errors.Join(context.Cause(ctx), all.failed, all.why)
	}
	to.Record(Rate, float64(all.through)/took.Seconds())
	to.Record(Errors, float64(all.failures))
	if all.why != nil {
		to.Note(NoteLostContainers)
	}
	if all.early {
		to.Note(NoteEndedEarly)
	}
	for _, name := range seriesNames() {
		if n := all.failedAt[name]; n > 0 {
			to.Series(ErrorsAt+name, []float64{float64(n)})
		}
	}
	for _, name := range seriesNames() {
		to.Series(name, all.series[name])
	}
	for name, values := range all.times {
		slices.Sort(values)
		for _, p := range percentiles() {
			if rank := nearestRank(len(values), p); len(values)-rank >= beyond {
				to.Record(percentileName(name, p), values[rank-1])
			}
		}
	}
	return nil
}

// join adds the lanes up, in their order: of their failures it keeps the first,
// and every clean-up that failed.
func join(lanes []*lane) *lane {
	all := newLane(nil, 0)
	for _, l := range lanes {
		all.through += l.through
		all.failures += l.failures
		all.early = all.early || l.early
		all.failed = errors.Join(all.failed, l.failed)
		if all.why == nil {
			all.why = l.why
		}
		for name, n := range l.failedAt {
			all.failedAt[name] += n
		}
		for name, values := range l.times {
			all.times[name] = append(all.times[name], values...)
		}
		for name, values := range l.series {
			all.series[name] = append(all.series[name], values...)
		}
	}
	return all
}

// ErrorsAt begins the name of a series with one value: how many containers
// failed at the operation that follows.
const ErrorsAt = "errors."

// seriesNames are the series that there can be, in seconds: of the whole life
// and of each operation. What else happens to a container is not timed.
func seriesNames() []string {
	return slices.Concat([]string{Total, Sandbox}, operationNames(), []string{StopSandbox, RemoveSandbox})
}

// nearestRank is that of the smallest of n sorted values, from 1, that at least the
// share p of them does not exceed.
func nearestRank(n int, p float64) int { return max(int(math.Ceil(p*float64(n))), 1) }
