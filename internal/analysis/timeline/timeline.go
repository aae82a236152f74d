// Package timeline says where the time of a start went. It works from the events that a tracer stored
// with a trial, and from nothing else: the same run gives the same timelines everywhere.
//
// From the end of the metric it follows the causes back in time: a thread that ran, why it had waited,
// who woke it, what that thread did before. So every instant of the metric belongs to exactly one Tile,
// and the tiles of a complete Timeline sum to the metric. That is one chain of causes and not all work:
// what ran beside it is in Lane.Beside, and is never added to anything.
package timeline

import (
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A Kind says how the time of a Tile was spent.
type Kind string

// The kinds of a tile.
const (
	OnCPU   Kind = "on CPU"               // in the process's own code
	InCall  Kind = "on CPU in the kernel" // in a system call
	Ready   Kind = "waits for a CPU"      // it could have run
	Waiting Kind = "waits"                // for what Tile.Reason names
	Unknown Kind = "unknown"              // the events do not tell
)

// A Class says what the time was for. It is made of the system call and of the kernel functions in which
// a thread waited; what no rule knows is Other, and the Tile's Reason keeps the name.
type Class string

// The classes of a tile.
const (
	Code      Class = "own code"      // of the process: OnCPU and Ready, and what no system call explains
	Program   Class = "program start" // execute a program
	Processes Class = "processes"     // make, end and wait for processes and threads
	Messages  Class = "messages"      // pipes, sockets, epoll, futexes: from one thread to another
	Storage   Class = "storage"       // files, mounts, fsync
	Network   Class = "network"       // netlink and other sockets of the network, its namespaces, packet filters
	Groups    Class = "control groups"
	Names     Class = "namespaces"
	Security  Class = "security" // seccomp, capabilities, keys, security modules
	Memory    Class = "memory"
	Timers    Class = "timers"  // sleep and polling
	Devices   Class = "devices" // woken by an interrupt
	Other     Class = "other"
)

// A Role is the part that a process has in a start, such as "dockerd", "shim", "runc init", "hook",
// "CNI plugin bridge" or "program". A process that no rule knows has its program's name as its role, so a role may be
// foreign text. The kernel's threads, and programs that are not followed, such as systemd, have no tiles: the
// Reason of a wait says that one of them ended it.
type Role string

// A Tile is a stretch of time in which one thread did, or waited for, one thing.
type Tile struct {
	At       time.Duration // on the Timeline's axis
	Duration time.Duration // positive
	Lane     int           // index in Timeline.Lanes
	Thread   int           // its ID
	Kind     Kind
	Class    Class
	// Reason is what it did or waited for: a system call ("fsync"), a kernel function
	// ("synchronize_rcu"), or who woke it ("woken by kworker/0:1"). Empty for its own code. It may be
	// foreign text.
	Reason string
	// Stack lists the kernel functions in which the thread waited, the innermost first; nil if unknown.
	Stack []string
}

// End is when the tile ends.
func (t *Tile) End() time.Duration { return t.At + t.Duration }

// A Lane is one program that took part: a process from the time when it executes a program until it
// executes another one or ends, with all that it forks and that has not executed a program itself.
type Lane struct {
	Process int    // the ID of the process that executed it
	Name    string // of the program; foreign text
	Role    Role
	Parent  int           // index in Timeline.Lanes: of the program that started it; -1 = none of them
	Began   time.Duration // on the Timeline's axis, 0 if it was there before
	Ended   time.Duration // the end of the timeline if it was there after
	OnPath  time.Duration // the sum of its tiles on the path
	// OnCPU is how long its threads were on a CPU during the spans, on the path and beside it, all added up:
	// so it can be longer than the timeline.
	OnCPU time.Duration
	// Beside is its work on a CPU off the path, in order of time. It is to be shown and never added.
	Beside []Tile
}

// A Span is one part of the metric, such as the call that creates the container.
type Span struct {
	Name     string        // such as "create"
	At       time.Duration // on the Timeline's axis, which has no gaps between spans
	Duration time.Duration
	Began    time.Duration // since the Sample began
}

// A Timeline is where the time of one traced trial went. Its axis begins at 0 with the first span and
// leaves out the time between spans, as the metric does.
type Timeline struct {
	Trial bench.Trial
	Spans []Span
	Value time.Duration // of the metric: the sum of Spans
	// Tiles are the critical path in order of time. They begin at 0, leave no gap and end at Value.
	// There are none if Incomplete.
	Tiles []Tile
	// Lanes are the programs that took part, in the order in which they began.
	Lanes []Lane
	// Lost is how much was lost, and NoStack how many events lack a stack: see recording.Recording.
	Lost, NoStack int
	// Incomplete says why the timeline is in no mean, as a clause; empty if it is complete.
	Incomplete string
}

// A Key names a row of means: all tiles on the path with these three.
type Key struct {
	Role  Role
	Kind  Kind
	Class Class
}

// A Mean is an average over trials, with its interval.
type Mean struct {
	Value     time.Duration
	Low, High time.Duration // equal to Value if HasInterval is false
	// HasInterval is false with fewer than 3 trials.
	HasInterval bool
}

// A Row is where a share of the time went, on average. The rows of a Cell sum to its Value.
type Row struct {
	Key
	Mean  Mean
	Share float64 // of the cell's mean, 0 to 1
	// Processes is how many processes of the role had tiles of this row, on average.
	Processes float64
	// Reasons are what its tiles were spent on, the longest first; at most a few.
	Reasons []Reason
}

// A Reason is a part of a row. What has no name, such as a process's own code, is left out.
type Reason struct {
	Name  string // as Tile.Reason; may be foreign text
	Mean  time.Duration
	Times float64 // how often in a trial, on average
}

// A Cell is what all traced trials of one cell say.
type Cell struct {
	Cell       int // index in Plan.Cells
	Timelines  []Timeline
	Complete   int           // how many of them are complete: only those are in means
	Failed     int           // traced trials that did not succeed
	Lost       int           // events lost, in all of them
	NoStack    int           // events without a stack, in all of them: these waits have the name of their system call
	Incomplete string        // why the first that is incomplete is; empty if all are complete
	Value      Mean          // of the metric in complete traced trials
	Unknown    time.Duration // the mean of Kind Unknown
	Rows       []Row         // the longest first; none if Complete is 0
	// Typical is the index in Timelines of the one to draw: complete, with the median value; -1 = none.
	Typical int
	Cost    Cost

	timed map[int]float64 // the metric in timed trials, by block, in seconds
}

// Cost is what tracing costs: traced trials against timed ones of the same block.
type Cost struct {
	Blocks int // with both
	// Ratio is 1.03 if traced trials took 3 % longer: the geometric mean of the blocks. NaN if Blocks
	// is 0.
	Ratio     float64
	Low, High float64 // its interval; NaN with fewer than 3 blocks
}

// TooCostly is the Cost.Ratio above which a timeline carries a warning.
const TooCostly = 1.15

// A Result is what the timelines of one run say.
type Result struct {
	Metric string // the metric whose time is explained, a name in Header.Metrics
	Title  string // of the metric, as people read it
	Cells  []Cell // cells with traced trials, in the plan's order; none if the run has no timelines
}

// A Change is how much longer one row takes in one cell than in another.
type Change struct {
	Key
	Mean      Mean          // cell minus base; its interval holds for all rows of the Difference together
	Cell      time.Duration // the row's mean in the cell; 0 if it has none
	Base      time.Duration // and in the base
	Processes float64       // as Row.Processes, in the cell if it is longer there, else in the base
	Reasons   []Reason      // of the same
}

// A Difference says why one cell takes longer than another, from blocks in which both have a complete
// timeline. Rows, Folded and Rest sum to Mean.
type Difference struct {
	Cell, Base int // indices in Plan.Cells
	Blocks     int
	Mean       Mean // of the metric, cell minus base
	// Timed is the same of timed trials, which nothing slows: of all TimedBlocks in which both have one. With 0 of them
	// there is none.
	Timed       Mean
	TimedBlocks int

	Rows   []Change // whose interval excludes 0, the largest first, whatever their sign
	Folded []Change // the other ones, the largest first
	// Rest is all rows that are too small in both cells to be a row of their own. Its Key is empty.
	Rest Change
}

// FoldedMean is the sum of the folded rows and the rest.
func (d *Difference) FoldedMean() time.Duration {
	sum := d.Rest.Mean.Value
	for i := range d.Folded {
		sum += d.Folded[i].Mean.Value
	}
	return sum
}
