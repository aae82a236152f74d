// Package disk is the load that reads and writes a file: at random and sequentially, with
// a fixed number of requests in flight, and one block at a time that is forced to the
// disk.
package disk

import (
	"fmt"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// Name is the name of the load.
const Name = "disk"

// The I/O methods: how requests are handed to the kernel.
const (
	Auto    = "auto" // the first of the others that is allowed here
	Uring   = "io_uring"
	Libaio  = "libaio"  // io_submit
	Threads = "threads" // one thread for each request in flight, with pread and pwrite
)

// The facts of a report, and the values that some of them have.
const (
	FactIO     = "io"          // the I/O method; never Auto
	FactDirect = "direct"      // Yes or No
	FactSystem = "file_system" // such as "ext4"
)

// The words of option direct.
const (
	Yes = "yes"
	No  = "no"
)

// Run measures patterns of reads and writes on a file of its own:
//
//	dir=DIRECTORY           of the file, which is removed at the end and on SIGTERM
//	size=SIZE               of the file, which is written completely before anything is timed
//	patterns=LIST           of randread, read, randwrite, write and fsync; none: only check, and report facts
//	block=SIZE              of the random patterns and of fsync
//	sequential_block=SIZE   of read and write
//	depth=N                 requests in flight; fsync has one
//	direct=auto|yes|no      bypass the page cache; auto: if the file system can. fsync always uses it
//	io=auto|io_uring|libaio|threads
//	time=DURATION           measured time of each pattern; a tenth of it is added as warm-up
//
// A pattern's rate is the number of requests that completed within that time, divided by
// it. A latency lasts from just before the submission of a request until its completion is
// seen; for fsync, from the call of fdatasync to its return.
func Run(a *load.Args) (*load.Report, error) {
	plan, err := Read(a)
	if err != nil {
		return nil, err
	}
	// Each thread of method Threads needs a processor of Go's scheduler. Otherwise threads
	// whose requests are done would wait for others.
	defer load.SetThreads(plan.Depth + 1)()
	f, err := create(plan)
	if err != nil {
		return nil, err
	}
	defer f.remove()
	return f.measure(a.Turns, plan)
}

func (f *file) measure(page *turn.Page, plan Plan) (*load.Report, error) {
	q, err := choose(queues(), plan.IO)
	if err != nil {
		return nil, err
	}
	report := load.NewReport(Name)
	report.Facts[FactIO] = q.name
	report.Facts[FactSystem] = f.system
	report.Facts[FactDirect] = map[bool]string{true: Yes, false: No}[f.direct]
	if len(plan.Patterns) == 0 {
		return report, nil
	}
	if err := f.fill(plan.Size); err != nil {
		return nil, err
	}
	for _, p := range plan.Patterns {
		if err := f.measurePattern(page, p, plan, q, report); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return report, nil
}

// measurePattern measures one pattern.
func (f *file) measurePattern(page *turn.Page, p Pattern, plan Plan, q queue, r *load.Report) error {
	if err := f.settle(); err != nil {
		return err
	}
	t := newTally(plan)
	if p.Write { // what a write costs comes later, in the turns of others
		page.Whole()
	} else if page != nil {
		t.stage = page.Stage(q.threads(plan))
	}
	if err := f.run(p, plan, q, t); err != nil {
		return err
	}
	r.Measured += plan.Time.Seconds()
	speed := ".rate"
	if p.Random {
		speed = ".iops"
	}
	r.AddSlices(Metric(p.Name)+speed, t.stage.Slices())
	if err := Record(r, p, t.rate(), plan.BlockOf(p), t.latency); err != nil || t.stage == nil || !p.Random {
		return err
	}
	// The same in one turn that nothing interrupts.
	if err := f.settle(); err != nil {
		return err
	}
	page.Whole()
	plan.Time /= load.StretchShare
	t = newTally(plan)
	if err := f.run(p, plan, q, t); err != nil {
		return err
	}
	r.Values[Metric(p.Name)+".iops"+load.StretchSuffix] = t.rate()
	r.Measured += plan.Time.Seconds()
	return nil
}
