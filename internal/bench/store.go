package bench

import (
	"context"
	"fmt"
	"iter"
)

// A Store keeps runs. A run is only ever appended to, and a finished one never
// changes. What was appended before a crash can be read after it. Stores may
// be used by several processes at once.
type Store interface {
	// Create begins a run. errors.Is(err, fs.ErrExist) if there is one of that ID.
	Create(ctx context.Context, h Header) (RunWriter, error)

	// Resume opens an incomplete run for appending.
	// errors.Is(err, fs.ErrNotExist) if there is none; ErrFinished if it is finished.
	Resume(ctx context.Context, id string, r Resumption) (RunWriter, error)

	// Open reads one run. errors.Is(err, fs.ErrNotExist) if there is none.
	Open(ctx context.Context, id string) (*Run, error)

	// Runs yields a summary of every run, newest first.
	Runs(ctx context.Context) iter.Seq2[RunSummary, error]

	Close() error
}

// A RunWriter appends to one run. It is used by one goroutine.
type RunWriter interface {
	// Append stores one sample. It is called between trials and never while
	// something is timed. Seq must grow by one from call to call.
	Append(ctx context.Context, s Sample) error

	// Finish marks the run finished; nothing can be appended after it.
	Finish(ctx context.Context, e End) error

	// Close releases the writer. A run that was not finished stays
	// incomplete, which reports say; it is not corrupt.
	Close() error
}

// A RunSummary is what a list shows of a run.
type RunSummary struct {
	Header  Header
	Samples int
	Failed  int // samples whose outcome is failed or timed-out
	Partly  int // samples of surveys that are ok but for a part that failed
	End     *End
}

// ErrFinished is the error of resuming a run that is finished.
var ErrFinished = fmt.Errorf("the run is finished")

// ValidRunID reports whether id can be the ID of a run: 1 to 64 characters of
// a-z, 0-9 and '-', beginning with a letter or digit. An ID becomes part of
// labels, directory and cgroup names, so nothing else may ever get into it.
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
