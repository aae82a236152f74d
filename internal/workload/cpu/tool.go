package cpu

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/cpu"
	"github.com/tare-bench/tare/internal/supervise"
)

// A tool is a program of the host that computes in place of the load.
type tool struct {
	name  string
	find  func() error // wraps bench.ErrUnsupported where the host lacks it
	stage func(bench.Task) (bench.Fixture, error)
}

func tools() []tool {
	return []tool{
		{"sysbench", sysbench.Find, staged(sysbenchJobs)},
		{"stress-ng", stressNG.Find, staged(stressJobs)},
		{passMarkName, findPassMark, newWorkshop},
	}
}

func staged(jobs func(bench.Task) []supervise.Job) func(bench.Task) (bench.Fixture, error) {
	return func(t bench.Task) (bench.Fixture, error) { return supervise.Stage(t.Engine, jobs(t)...), nil }
}

// toolNamed is the tool of a name that was held to its rule.
func toolNamed(name string) tool {
	all := tools()
	return all[slices.IndexFunc(all, func(t tool) bool { return t.name == name })]
}

// twice makes two jobs of a program that is told how many threads to use: one
// for each score.
func twice(t bench.Task, job func(threads, score string) supervise.Job) []supervise.Job {
	return []supervise.Job{job("1", cpu.Single), job(supervise.Threads(t), cpu.All)}
}

// seconds is how long each of two runs of a tool takes: half of the time, in
// whole seconds, as tools read it.
func seconds(t bench.Task) string {
	d, _ := time.ParseDuration(t.Params["time"]) // was held to its rule
	return strconv.Itoa(int(math.Ceil(d.Seconds() / 2)))
}

func report(values map[string]float64) *load.Report {
	r := load.NewReport(cpu.Name)
	r.Values = values
	return r
}
