// Package memory is the load that moves memory: how many bytes per second, and
// how long one access takes.
package memory

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// Name is the name of the load.
const Name = "memory"

// The names of the values: bandwidths in bytes per second, those that are read
// and those that are written together; and seconds for each access. The latency
// of a working set that is smaller than the arrays is Latency, a dot and its size.
const (
	Read    = "memory.read"
	Write   = "memory.write"
	Copy    = "memory.copy"
	Triad   = "memory.triad"
	Latency = "memory.latency"
)

// The facts of the report.
const (
	FactCPUs    = "cpus"    // on how many it may run
	FactThreads = "threads" // on how many the bandwidths were measured
	FactSize    = "size"    // bytes of each array
	FactPages   = "pages"   // which were asked for
	FactHuge    = "huge"    // bytes that lie in huge pages, where the kernel tells
)

// The sizes that an array may have.
const (
	MinSize = 1 << 20
	MaxSize = 16 << 30
)

type options struct {
	time    time.Duration // of everything that is timed
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

// Valid reports what is wrong with options, each by itself.
func Valid(args *load.Args) error {
	_, err := parse(args)
	return err
}

// Check reports what is wrong with options, together too.
func Check(args *load.Args) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return o.fit()
}

// fit sees to it that every thread has a block.
func (o options) fit() error {
	if least := o.threads * block * wordSize; o.size < least {
		return fmt.Errorf("size=%d: want at least %d bytes for %d threads", o.size, least, o.threads)
	}
	return nil
}

// Run touches three arrays, and then moves them, for half of the time, and goes
// through the first one in random order for the other half.
func Run(args *load.Args) (*load.Report, error) {
	o, err := parse(args)
	if err == nil {
		err = o.fit()
	}
	if err != nil {
		return nil, err
	}
	defer load.Quiet(o.threads)()
	a, err := newArrays(o)
	if err != nil {
		return nil, err
	}
	defer a.free()
	r := load.NewReport(Name)
	a.facts(r.Facts)
	r.Facts[FactCPUs] = strconv.Itoa(load.CPUs())
	r.Facts[FactThreads] = strconv.Itoa(o.threads)
	if err := bandwidths(r.Values, a, o.threads, o.time/2); err != nil {
		return nil, err
	}
	return r, latencies(r.Values, a.words[0], o.time/2)
}
