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
	FactMapped  = "mapped"  // how often the arrays were mapped
)

// NoteNormalPages marks a report of arrays in normal pages, since the kernel had no huge ones, which Auto allows.
const NoteNormalPages = "memory-normal-pages"

// The sizes that an array may have.
const (
	MinSize = 1 << 20
	MaxSize = 16 << 30
)

type options struct {
	time     time.Duration // of all measurements together
	size     int           // bytes of each array
	threads  int
	pages    string
	mappings int
}

// MaxMappings is the largest number of times that the arrays are mapped.
const MaxMappings = 64

func parse(args *load.Args) (options, error) {
	o := options{
		time:     args.Duration("time", time.Second, 10*time.Millisecond, 10*time.Minute),
		size:     int(args.Bytes("size", "64MiB", MinSize, MaxSize)),
		threads:  args.Threads("threads", "1"),
		pages:    args.Word("pages", Normal, Pages()...),
		mappings: int(args.Int("mappings", 1, 1, MaxMappings)),
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
// random accesses to the first one for the other half. The time is divided among several mappings of
// the arrays, so that the pages of one do not decide; each value is the mean over them.
func Run(args *load.Args) (*load.Report, error) {
	o, err := parse(args)
	if err == nil {
		err = o.raiseSize()
	}
	if err != nil {
		return nil, err
	}
	if o.pages == Huge {
		o.mappings = 1 // a second set of reserved pages may not be there
	}
	defer load.SetThreads(o.threads)()
	// The values depend on which normal pages the arrays get. Where each cell maps, measures and frees in one turn, the
	// next one gets the same pages. If the arrays of all cells lived at once, each would have pages of its own. Huge
	// pages are much alike, but those that are reserved may suffice for one cell only. With several NUMA nodes a thread
	// may come back from its rest on another one than its memory.
	page := args.Turns
	if o.pages == Normal || o.pages == Huge || nodes() > 1 {
		page.Whole()
		page = nil
	}
	r := load.NewReport(Name)
	a, err := newArrays(o)
	if err != nil {
		return nil, err
	}
	if o.pages == Auto && a.hasFewHuge(mostHuge) {
		r.Notes = append(r.Notes, NoteNormalPages)
		a.free()
		page.Whole()
		page, o.pages = nil, Normal
		if a, err = newArrays(o); err != nil {
			return nil, err
		}
	}
	defer a.free()
	a.facts(r.Facts)
	r.Facts[FactCPUs] = strconv.Itoa(load.CPUs())
	r.Facts[FactThreads] = strconv.Itoa(o.threads)
	r.Facts[FactMapped] = strconv.Itoa(o.mappings)
	if err := a.measureAll(page, r, o); err != nil || page == nil {
		return r, err
	}
	return r, a.stretch(page, r, o)
}

// stretch measures copying again in one turn that nothing interrupts.
func (a *arrays) stretch(page *turn.Page, r *load.Report, o options) error {
	if err := a.fill(a.words[0]); err != nil { // the chain of latencies is in it
		return err
	}
	page.Whole()
	stretch, share := load.NewReport(Name), o.time/load.StretchShare
	if err := bandwidths(nil, stretch, a, share, copying()); err != nil {
		return err
	}
	r.Values[Copy+load.StretchSuffix] = stretch.Values[Copy]
	r.Measured += measuredShare * share.Seconds()
	return nil
}

// measuredShare is the share of the time without the warm-up of each measurement.
const measuredShare = 0.9

// measureAll measures with each mapping of the arrays.
func (a *arrays) measureAll(page *turn.Page, r *load.Report, o options) error {
	r.Measured = measuredShare * o.time.Seconds()
	for i := range o.mappings {
		if i > 0 {
			if err := a.renew(); err != nil {
				return err
			}
			if o.pages == Auto && a.hasFewHuge(mostHuge) && len(r.Notes) == 0 {
				r.Notes = append(r.Notes, NoteNormalPages)
			}
		}
		one := load.NewReport(Name)
		if err := a.measure(page, one, o.time/time.Duration(o.mappings)); err != nil {
			return err
		}
		for name, value := range one.Values {
			r.Values[name] += value / float64(o.mappings)
		}
		if i == 0 { // the rounds of all cells have the same numbers
			r.Slices = one.Slices
		}
	}
	return nil
}

// measure measures the bandwidths for half of the time, and the latencies for the other half.
func (a *arrays) measure(page *turn.Page, r *load.Report, share time.Duration) error {
	if err := bandwidths(page, r, a, share/2, kernels()...); err != nil {
		return err
	}
	return latencies(page, r, a.words[0], share/2)
}
