// Package cpu is the load that computes: kernels of fixed work with known
// answers, on one thread and on several at once.
package cpu

import (
	"fmt"
	"maps"
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
	Single = "cpu.single" // on one thread
	All    = "cpu.all"    // on several at once, added up
)

// The facts of the report.
const (
	FactCPUs    = "cpus"    // on how many it may run
	FactThreads = "threads" // on how many All was measured
)

// options are what a user can choose.
type options struct {
	time    time.Duration // of everything
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

// Run measures: each kernel in turn, first on one thread and then on several. With
// one thread both are one measurement, which has all of the time. A tenth of the
// time before is warm-up.
func Run(args *load.Args) (*load.Report, error) {
	o, err := parse(args)
	if err != nil {
		return nil, err
	}
	defer load.Quiet(o.threads)()
	crews := make([]crew, len(o.kernels))
	warmUp := o.time / 10
	for i, k := range o.kernels {
		crews[i] = newCrew(k, o.threads)
		if err := crews[i].warm(warmUp / time.Duration(len(crews))); err != nil {
			return nil, err
		}
	}
	r := load.NewReport(Name)
	r.Facts[FactCPUs] = strconv.Itoa(load.CPUs())
	r.Facts[FactThreads] = strconv.Itoa(o.threads)
	if o.threads == 1 {
		err := score(r.Values, All, crews, 1, o.time-warmUp)
		for name, value := range maps.Clone(r.Values) {
			r.Values[Single+strings.TrimPrefix(name, All)] = value
		}
		return r, err
	}
	share := (o.time - warmUp) / 2
	if err := score(r.Values, Single, crews, 1, share); err != nil {
		return nil, err
	}
	return r, score(r.Values, All, crews, o.threads, share)
}

// score measures every kernel on that many threads, for a share of the time.
func score(values map[string]float64, name string, crews []crew, threads int, share time.Duration) error {
	each := make([][]spell, len(crews)) // by kernel and thread
	for i, c := range crews {
		var err error
		if each[i], err = c.work(threads, share/time.Duration(len(crews))); err != nil {
			return err
		}
	}
	logs := 0.0
	for i, rate := range rates(each) {
		values[name+"."+crews[i].kernel.name] = rate
		logs += math.Log(rate)
	}
	values[name] = math.Exp(logs / float64(len(crews)))
	return nil
}

// choose returns the kernels named, each once, with blanks or commas between.
func choose(names string) (chosen []kernel, err error) {
	all := kernels()
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ' ' || r == ',' }) {
		i := slices.IndexFunc(all, func(k kernel) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no kernel %.40q: want some of %s, each once", name, strings.Join(Kernels(), " "))
		}
		chosen = append(chosen, all[i])
		all = slices.Delete(all, i, i+1)
	}
	if len(chosen) == 0 {
		return nil, &load.ValueError{Key: "kernels", Value: names, Want: "some of " + strings.Join(Kernels(), " ")}
	}
	return chosen, nil
}
