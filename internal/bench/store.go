package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A Store keeps runs. A run is only ever appended to, and a finished one never
// changes, except when it is extended and for what people write on it, until somebody removes it
// whole: see Keeper. What was appended before a crash can be read after it. Stores may be used by
// several processes at once.
type Store interface {
	// Create begins a run. errors.Is(err, fs.ErrExist) if there is one of that ID,
	// *NameTaken if there is another of its name.
	Create(ctx context.Context, h Header) (RunWriter, error)

	// Resume opens an incomplete run for appending or, where r has an Extension, a
	// finished one, which is incomplete from then on.
	// errors.Is(err, fs.ErrNotExist) if there is none; ErrFinished if it is finished and
	// not to be extended; ErrExtended if it did not end as the Extension says.
	Resume(ctx context.Context, id string, r Resumption) (RunWriter, error)

	// Open reads one run. errors.Is(err, fs.ErrNotExist) if there is none.
	Open(ctx context.Context, id string) (*Run, error)

	// Runs yields a summary of every run, newest first.
	Runs(ctx context.Context) iter.Seq2[RunSummary, error]

	// Find returns the IDs of the runs whose ID begins or ends with part, newest
	// first: at most limit, or all if limit is 0. An empty part matches every run. It
	// reads no headers, so a run that it names may be unreadable. IDs may come with an
	// error, which says that others are hidden.
	Find(ctx context.Context, part string, limit int) ([]string, error)

	Keeper

	Close() error
}

// A RunWriter appends to one run. It is used by one goroutine.
type RunWriter interface {
	// Append stores one sample. It is called between trials, when nothing is
	// timed. Seq must grow by one from call to call.
	Append(ctx context.Context, s Sample) error

	// Finish marks the run finished; nothing can be appended after it.
	Finish(ctx context.Context, e End) error

	// Close releases the writer. A run that was not finished stays incomplete, and
	// reports say so; it is not corrupt.
	Close() error
}

// A RunSummary is what a list of runs shows.
type RunSummary struct {
	Header     Header
	Samples    int
	Failed     int // samples whose outcome is failed or timed-out
	PartFailed int // samples of surveys that are ok, except that a part failed
	End        *End
}

// A Holder is a Store that lets one process at a time work on a run: two that measure the same run
// would remove each other's containers.
type Holder interface {
	// Hold keeps others from a run until it is released, or this process ends. ErrHeld if
	// another process holds it, errors.Is(err, fs.ErrNotExist) if there is no such run.
	Hold(ctx context.Context, id string) (release io.Closer, err error)
}

// ErrHeld is the error of holding a run that another process holds.
var ErrHeld = errors.New("another process works on the run")

// A Checker is a Store that can detect damage to what it holds.
type Checker interface {
	// Check reads the whole store and changes nothing. It calls each for every run,
	// newest first, until each fails, and returns the faults of the store as a whole.
	Check(ctx context.Context, each func(CheckResult) error) (wrong []string, err error)

	// CheckRun reads one run, and changes nothing.
	CheckRun(ctx context.Context, id string) CheckResult
}

// CheckResult is the result of a check of one run.
type CheckResult struct {
	ID      string
	Samples int
	Summed  bool     // everything has checksums; false for a run that an older version stored
	Damaged []Sample // samples that are not as they were stored
	Err     error    // why the run cannot be read, or not to its end
	Written error    // what is wrong with its name and the notes on it
}

// ErrFinished is the error of resuming a run that is finished.
var ErrFinished = fmt.Errorf("the run is finished")

// ErrExtended is the error of extending a run that is not as it was: somebody else has
// gone on with it.
var ErrExtended = errors.New("another process has gone on with the run")

// ValidRunID reports whether id can be the ID of a run: 1 to 64 characters of
// a-z, 0-9 and '-', beginning with a letter or digit. An ID becomes part of
// labels, directory and cgroup names, so it must not contain anything else.
func ValidRunID(id string) error {
	if len(id) == 0 || len(id) > 64 || id[0] == '-' {
		return fmt.Errorf("%w: %.80q", ErrRunID, id)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%w: %.80q", ErrRunID, id)
		}
	}
	return nil
}
