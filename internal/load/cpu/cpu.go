// Package cpu is the load that computes: kernels of fixed work with known
// answers, on one thread and on several at once.
package cpu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// Name is the name of the load.
const Name = "cpu"

// The names of the scores: operations per second, the geometric mean of the
// kernels. A kernel's own is the score's name, a dot and the kernel's name.
const (
	Single = "cpu.single" // on one thread: the speed of a CPU, times the share of the time that the thread had one
	All    = "cpu.all"    // on several threads at once: the sum of their work by wall clock

	// SingleDone is the work of one thread by wall clock. It includes temporary slowdowns
	// of the CPU, which Single leaves out whatever caused them.
	SingleDone = "cpu.single_done"
)

// The facts of the report.
const (
	FactCPUs    = "cpus"    // number of CPUs that the process may use
	FactThreads = "threads" // number of threads for All
)

// options are what a user can choose.
type options struct {
	time    time.Duration // in total
	threads int
	kernels []kernel
}

func parse(args *load.Args) (o options, err error) {
	o.time = args.Duration("time", time.Second, 10*time.Millisecond, 10*time.Minute)
	o.threads = args.Threads("threads", "all")
	names := args.Text("kernels", strings.Join(Kernels(), " "))
	if err := args.Err(); err != nil {
		return o, err
	}
	o.kernels, err = choose(names)
	return o, err
}

// Check reports what is wrong with options.
func Check(args *load.Args) error {
	_, err := parse(args)
	return err
}

// Run measures the kernels in turns, first on one thread and then on several. With
// threads=1 one segment, which has all of the time, gives both scores. The first tenth of
// the time is warm-up.
func Run(args *load.Args) (*load.Report, error) {
	o, err := parse(args)
	if err != nil {
		return nil, err
	}
	defer load.SetThreads(o.threads)()
	c, warmUp := newPool(args.Turns, o.kernels, o.threads), o.time/10
	if err := c.warm(warmUp); err != nil {
		return nil, err
	}
	r := load.NewReport(Name)
	one, all, err := c.segments(r, o.threads, o.time-warmUp)
	if err != nil {
		return nil, err
	}
	r.Facts[FactCPUs] = strconv.Itoa(load.CPUs())
	r.Facts[FactThreads] = strconv.Itoa(o.threads)
	addScores(r.Values, Single, o.kernels, rates(one, segment.cpuShare))
	addScores(r.Values, All, o.kernels, rates(all, segment.computeShare))
	r.Values[SingleDone] = mean(rates(one, segment.computeShare))
	return r, c.stretch(r, o)
}

// stretch measures again in one turn that nothing interrupts, if the process takes turns.
func (c *pool) stretch(r *load.Report, o options) error {
	if c.turns == nil {
		return nil
	}
	c.turns.Whole()
	c.turns = nil
	one, all, err := c.segments(r, o.threads, o.time/load.StretchShare)
	if err != nil {
		return err
	}
	r.Values[Single+load.StretchSuffix] = mean(rates(one, segment.cpuShare))
	r.Values[All+load.StretchSuffix] = mean(rates(all, segment.computeShare))
	return nil
}

// quotaPeriod is the period of CPU quotas: the kernel's own default, which nearly everybody keeps.
const quotaPeriod = 100 * time.Millisecond

// wholePeriods rounds a time to periods of a CPU quota, if it has one at least.
//
// A thread with a quota works at the beginning of each period and then stands still. A segment begins
// while it works, after the warm-up. If it ends while the thread stands still, it lasts until the next
// period, and would count less work than the quota gives; a segment of whole periods counts exactly that.
func wholePeriods(share time.Duration) time.Duration {
	if share < quotaPeriod {
		return share
	}
	return share.Round(quotaPeriod)
}

// segments returns the segments of one thread by itself, and those of all threads at once. It reports
// how long that was, and the slices.
func (c *pool) segments(r *load.Report, threads int, share time.Duration) (one, all []segment, err error) {
	parts := min(threads, 2)
	share /= time.Duration(parts)
	if c.turns == nil { // a process with a quota takes no turns
		share = wholePeriods(share)
	}
	r.Measured += float64(parts) * share.Seconds()
	one, slices, err := c.work(1, share)
	r.AddSlices(SingleDone, slices) // all that was done, by wall clock
	if err != nil || threads == 1 {
		return one, one, err
	}
	all, slices, err = c.work(threads, share)
	r.AddSlices(All, slices)
	return one, all, err
}

// addScores stores the rates of the kernels and their geometric mean.
func addScores(values map[string]float64, name string, kernels []kernel, rates []float64) {
	for i, rate := range rates {
		values[name+"."+kernels[i].name] = rate
	}
	values[name] = mean(rates)
}

// mean is the geometric mean.
func mean(rates []float64) float64 {
	logs := 0.0
	for _, rate := range rates {
		logs += math.Log(rate)
	}
	return math.Exp(logs / float64(len(rates)))
}

// choose returns the named kernels; names are separated by blanks or commas, each once.
func choose(names string) (chosen []kernel, err error) {
	all := kernels()
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' }) {
		i := slices.IndexFunc(all, func(k kernel) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf(
				"there is no kernel %.40q: want some of %s, each once", name, strings.Join(Kernels(), " "))
		}
		chosen = append(chosen, all[i])
		all = slices.Delete(all, i, i+1)
	}
	if len(chosen) == 0 {
		return nil, &load.ValueError{Key: "kernels", Value: names, Want: "some of " + strings.Join(Kernels(), " ")}
	}
	return chosen, nil
}
