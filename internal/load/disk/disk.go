// Package disk is the load that reads and writes a file: at random and in
// order, with a number of requests always under way, and one block at a time
// that is forced to the disk.
package disk

import (
	"fmt"

	"github.com/tare-bench/tare/internal/load"
)

// Name is the load's name.
const Name = "disk"

// The ways to hand requests to the kernel.
const (
	Auto    = "auto" // the first of the others that is allowed here
	Uring   = "io_uring"
	Libaio  = "libaio"  // io_submit
	Threads = "threads" // one for each request under way, with pread and pwrite
)

// The facts of a report, and the values that some of them have.
const (
	FactIO     = "io"          // a way to hand requests to the kernel; never Auto
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
//	dir=DIRECTORY           where; the file is removed at the end, and when SIGTERM comes
//	size=SIZE               of the file, which is written in full before anything is timed
//	patterns=LIST           of randread, read, randwrite, write and fsync; none: checks, and reports facts alone
//	block=SIZE              of the random patterns and of fsync
//	sequential_block=SIZE   of read and write
//	depth=N                 requests under way at any time; fsync has one
//	direct=auto|yes|no      past the page cache; auto: where the file system can. fsync always goes through it
//	io=auto|io_uring|libaio|threads
//	time=DURATION           for which each pattern is measured, after a tenth of it more
//
// A pattern's rate is the requests that completed within that time, divided by
// it; a latency is from just before a request is handed in until its completion
// is seen, that of fsync from the call of fdatasync to its return.
func Run(a *load.Args) (*load.Report, error) {
	plan, err := Read(a)
	if err != nil {
		return nil, err
	}
	// Each of Threads' needs a processor of Go's for itself, or those whose request
	// is done would wait for those whose is not.
	defer load.Quiet(plan.Depth + 1)()
	f, err := create(plan)
	if err != nil {
		return nil, err
	}
	defer f.remove()
	return f.measure(plan)
}

func (f *file) measure(plan Plan) (*load.Report, error) {
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
		if err := f.one(p, plan, q, report); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return report, nil
}

// one measures one pattern.
func (f *file) one(p Pattern, plan Plan, q queue, r *load.Report) error {
	if err := f.settle(); err != nil {
		return err
	}
	t := newTally(plan)
	if err := f.run(p, plan, q, t); err != nil {
		return err
	}
	return Record(r, p, t.rate(), plan.BlockOf(p), t.latency)
}
