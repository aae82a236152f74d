// Package memory is the load that measures the bandwidth and the latency of memory.
package memory

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// Name is the name of the load.
const Name = "memory"

// The names of the values: bandwidths in bytes per second, read and written bytes
// together, and the latency in seconds per access. For a working set that is smaller than
// the arrays, the name is Latency, a dot and its size.
const (
	Read    = "memory.read"
	Write   = "memory.write"
	Copy    = "memory.copy"
	Triad   = "memory.triad"
	Latency = "memory.latency"
)

// The facts of the report.
const (
	FactCPUs    = "cpus"    // number of CPUs that the process may use
	FactThreads = "threads" // number of threads for the bandwidths
	FactSize    = "size"    // bytes of each array
	FactPages   = "pages"   // the requested kind of pages
	FactHuge    = "huge"    // bytes in huge pages, if the kernel tells
)

// The sizes that an array may have.
const (
	MinSize = 1 << 20
	MaxSize = 16 << 30
)

type options struct {
	time    time.Duration // of all measurements together
	size    int           // bytes of each array
	threads int
	pages   string
}

func parse(args *load.Args) (options, error) {
	o := options{
		time:    args.Duration("time", time.Second, 10*time.Millisecond, 10*time.Minute),
		size:    int(args.Bytes("size", "64MiB", MinSize, MaxSize)),
		threads: args.Threads("threads", "1"),
		pages:   args.Word("pages", Normal, Pages()...),
	}
	return o, args.Err()
}

// Valid returns what is wrong with options, each by itself.
func Valid(args *load.Args) error {
	_, err := parse(args)
	return err
}

// Check returns what is wrong with options, by themselves and together.
func Check(args *load.Args) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return o.raiseSize()
}

// raiseSize checks that every thread has at least a block.
func (o options) raiseSize() error {
	if least := o.threads * block * wordSize; o.size < least {
		return fmt.Errorf("size=%d: want at least %d bytes for %d threads", o.size, least, o.threads)
	}
	return nil
}

// Run measures the bandwidths of three arrays for half of the time, and the latency of
// random accesses to the first one for the other half.
func Run(args *load.Args) (*load.Report, error) {
	o, err := parse(args)
	if err == nil {
		err = o.raiseSize()
	}
	if err != nil {
		return nil, err
	}
	defer load.SetThreads(o.threads)()
	a, err := newArrays(o)
	if err != nil {
		return nil, err
	}
	defer a.free()
	r := load.NewReport(Name)
	a.facts(r.Facts)
	r.Facts[FactCPUs] = strconv.Itoa(load.CPUs())
	r.Facts[FactThreads] = strconv.Itoa(o.threads)
	if err := a.measure(args.Turns, r.Values, o, o.time); err != nil || args.Turns == nil {
		return r, err
	}
	if err := a.fillAll(o.threads); err != nil { // the chain of latencies is in it
		return nil, err
	}
	args.Turns.Whole()
	stretch := map[string]float64{}
	if err := a.measure(nil, stretch, o, o.time/load.StretchShare); err != nil {
		return nil, err
	}
	for _, name := range []string{Copy, Latency} {
		r.Values[name+load.StretchSuffix] = stretch[name]
	}
	return r, nil
}

// measure measures the bandwidths for half of the time, and the latencies for the other half.
func (a *arrays) measure(page *turn.Page, values map[string]float64, o options, share time.Duration) error {
	if err := bandwidths(page, values, a, o.threads, share/2); err != nil {
		return err
	}
	return latencies(page, values, a.words[0], share/2)
}
