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

// Rate and Errors are the metrics of throughput that do not belong to an operation.
const (
	Rate   = "rate"
	Errors = "errors"
)

// NewThroughput returns the workload that takes many containers through their lifecycle
// at once.
func NewThroughput() bench.Workload { return throughput{} }

type throughput struct{}

func (throughput) Name() string { return "throughput" }

func (throughput) Doc() string {
	return "Containers per second: parallel lanes, each taking one container after the other through the same " +
		"operations."
}

// percentiles lists the percentiles of each operation's times in one trial.
func percentiles() []float64 { return []float64{0.5, 0.9, 0.99} }

// beyond is how many values must lie beyond a percentile for it to be reported: of five
// containers, the 99th percentile would be the slowest one, by chance.
const beyond = 10

func percentileName(metric string, p float64) string {
	return fmt.Sprintf("%s.p%g", metric, p*100)
}

func (throughput) Metrics() []bench.Metric {
	all := []bench.Metric{{
		Name: Rate, Title: "containers per second", Unit: "1/s", Better: bench.Higher,
		Role: bench.Primary, Scale: bench.Ratio,
		Doc: "Containers that completed all operations, divided by the time from the beginning of the first to the " +
			"end of the last. It does not include the preparation of bundles and images. It includes the check, " +
			"before a stop, whether a foreign program still runs.",
	}, {
		Name: Errors, Title: "failed containers", Unit: "1", Better: bench.Lower, Role: bench.Detail, Scale: bench.Difference,
		Doc: "Containers with a failed operation. No other number includes their times.",
	}}
	total := secondsMetric(Total, "full lifecycle", bench.Detail, bench.Difference,
		"Sum of all operations on one container.")
	for _, m := range append([]bench.Metric{total}, operationMetrics()...) {
		if m.Name == Exit {
			continue // the output of the process inside is not read
		}
		for _, p := range percentiles() {
			all = append(all, bench.Metric{
				Name: percentileName(m.Name, p), Title: fmt.Sprintf("%s, p%g", m.Title, p*100), Unit: m.Unit, Better: m.Better,
				Role: bench.Detail, Scale: bench.Difference,
				Doc: fmt.Sprintf(
					"%s Percentile %g over the containers of a trial, if at least 10 lie beyond it.",
					m.Doc, p*100),
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
		Text: "some containers of {cells} failed: they are counted, but no number includes their times",
		Advice: "use fewer at once, or run the same operations with workload lifecycle, which shows " +
			"what failed",
	})
}

func (throughput) Params() []bench.Param {
	return append(
		lifeParams(),
		bench.Param{
			Name: "concurrency", Default: "1", Valid: bench.Between(1, maxConcurrency),
			Doc: "number of parallel lanes",
		},
		bench.Param{Name: "iterations", Default: "10", Valid: bench.Between(1, maxIterations), Doc: "number of " +
			"containers that each lane takes through the operations in one trial"},
	)
}

// Check implements bench.Workload.
func (throughput) Check(ctx context.Context, t bench.Task) error {
	_, err := newLifecycleRun(ctx, t)
	return err
}

// Setup implements bench.Fixturer.
func (throughput) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	return preparedFixture{t}, nil
}

// preparedFixture lets the engine prepare every container before a trial begins, so that no
// number includes unpacking and overlay mounts, which are not the runtime's work. For
// engines that need to prepare only once, further calls cost little.
type preparedFixture struct{ task bench.Task }

func (s preparedFixture) Reset(ctx context.Context) error {
	l, err := newLifecycleRun(ctx, s.task)
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

func (preparedFixture) Remove(context.Context) error { return nil }

// Run runs the lanes. One container before them is attested, untimed: the engine treats
// the others alike.
func (throughput) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	first := newLane(m, t.OpTime)
	_, err := first.runOnce(ctx, t, m.Applied)
	if err := errors.Join(err, first.failed); err != nil {
		return err
	}
	lanes := make([]*lane, number(t, "concurrency"))
	for i := range lanes {
		lanes[i] = newLane(m, t.OpTime)
	}
	// The runner limits Go's scheduler to one processor. If tare is the engine itself
	// (native, floor), its lanes would wait for one another. All cells get the same limit.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(len(lanes), runtime.NumCPU())))
	begin := m.Now()
	var all sync.WaitGroup
	for _, l := range lanes {
		all.Go(func() { l.run(ctx, t, number(t, "iterations")) })
	}
	all.Wait()
	return conclude(ctx, m, lanes, m.Now()-begin)
}

// conclude reports the results of the lanes. The trial has failed if no container
// succeeded, if it was canceled, or if it could not remove a container.
func conclude(ctx context.Context, to bench.Recorder, lanes []*lane, took time.Duration) error {
	all := join(lanes)
	if ctx.Err() != nil || all.completed == 0 || all.failed != nil {
		return errors.Join(context.Cause(ctx), all.failed, all.why)
	}
	to.Record(Rate, float64(all.completed)/took.Seconds())
	to.Record(Errors, float64(all.failures))
	if all.why != nil {
		to.Note(NoteLostContainers)
	}
	if all.exitedEarly {
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

// join sums up the lanes, in their order. It keeps the first failure, and every clean-up
// that failed.
func join(lanes []*lane) *lane {
	all := newLane(nil, 0)
	for _, l := range lanes {
		all.completed += l.completed
		all.failures += l.failures
		all.exitedEarly = all.exitedEarly || l.exitedEarly
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

// ErrorsAt and the name of an operation name a series with one value: the number of
// containers that failed in that operation.
const ErrorsAt = "errors."

// seriesNames lists all possible series, in seconds: the full lifecycle and each
// operation. Other work on a container is not timed.
func seriesNames() []string {
	return slices.Concat([]string{Total, Sandbox}, operationNames(), []string{StopSandbox, RemoveSandbox})
}

// nearestRank returns the rank, from 1, of percentile p (0 to 1) in n sorted values: the
// smallest value that at least the share p of the values does not exceed.
func nearestRank(n int, p float64) int { return max(int(math.Ceil(p*float64(n))), 1) }
