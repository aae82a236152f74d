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
	find  func() error // wraps bench.ErrUnsupported if the host does not have it
	setUp func(bench.Task) (bench.Fixture, error)
}

func tools() []tool {
	return []tool{
		{"sysbench", sysbench.Find, jobsFixture(sysbenchJobs)},
		{"stress-ng", stressNG.Find, jobsFixture(stressJobs)},
		{passMarkName, findPassMark, newWorkDir},
	}
}

func jobsFixture(jobs func(bench.Task) []supervise.Job) func(bench.Task) (bench.Fixture, error) {
	return func(t bench.Task) (bench.Fixture, error) { return supervise.NewJobs(t, jobs(t)...), nil }
}

// toolNamed returns the tool of a valid name.
func toolNamed(name string) tool {
	all := tools()
	return all[slices.IndexFunc(all, func(t tool) bool { return t.name == name })]
}

// singleAndAll makes two jobs of a program, one for each score, which differ in the number of
// threads.
func singleAndAll(t bench.Task, job func(threads, score string) supervise.Job) []supervise.Job {
	return []supervise.Job{job("1", cpu.Single), job(supervise.Threads(t), cpu.All)}
}

// seconds is the length of each of the two runs of a tool: half of option time, in
// whole seconds, because tools take no fractions.
func seconds(t bench.Task) string {
	d, _ := time.ParseDuration(t.Params["time"]) // was validated
	return strconv.Itoa(int(math.Ceil(d.Seconds() / 2)))
}

func report(values map[string]float64) *load.Report {
	r := load.NewReport(cpu.Name)
	r.Values = values
	return r
}
