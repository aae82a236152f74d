// Package record reads and writes the format in which runs are exchanged:
// versioned JSON lines, specified in docs/format.md.
//
// A stream holds whole runs, one after the other. The first line of a run is
// its header; each sample follows on a line of its own, written at once, so
// that a writer that is killed leaves a run that is incomplete and not corrupt.
// What has been read is valid: indices are in range, samples are in order, and
// every value belongs to a declared metric.
package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tare-bench/tare/internal/bench"
)

// Version is the version of the format that Writer writes. Decoder reads it
// and every earlier one.
const Version = 1

// MaxLine is the length in bytes of the longest line that is read or written,
// its newline included.
const MaxLine = 16 << 20

// ErrVersion is wrapped by the error of reading a stream in a format that is
// newer than Version.
var ErrVersion = errors.New("the record was written by a newer version of tare")

// An Error is something wrong with a stream, and where.
type Error struct {
	Line int // from 1
	Err  error
}

// Error says in which line it is and what is wrong.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Read yields the runs of a stream in their order. A run without an End is
// incomplete: its writer is still at work, was killed, or its last line was cut
// off. The first error is yielded with a nil run and ends the sequence; what is
// wrong with the stream is an *Error.
func Read(r io.Reader) iter.Seq2[*bench.Run, error] {
	return func(yield func(*bench.Run, error) bool) {
		d := NewDecoder(r)
		var run *bench.Run
		for {
			e, err := d.Next()
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
			if run != nil && (err != nil || e.Header != nil) { // it ends without an End
				if !yield(run, nil) {
					return
				}
				run = nil
			}
			if err != nil {
				return
			}
			run = e.addTo(run)
			if e.End != nil {
				if !yield(run, nil) {
					return
				}
				run = nil
			}
		}
	}
}

// addTo adds what the event holds to the run, which a header begins.
func (e Event) addTo(run *bench.Run) *bench.Run {
	switch {
	case e.Header != nil:
		return &bench.Run{Header: *e.Header}
	case e.Sample != nil:
		run.Samples = append(run.Samples, *e.Sample)
	case e.Resumption != nil:
		run.Resumptions = append(run.Resumptions, *e.Resumption)
	case e.End != nil:
		run.End = e.End
	}
	return run
}

// Write writes one run, complete or not.
func Write(w io.Writer, run *bench.Run) error {
	rw, err := NewWriter(w, run.Header)
	if err != nil {
		return err
	}
	resume := func(_ context.Context, r bench.Resumption) error { return rw.Resume(r) }
	return replay(context.Background(), run, rw, resume)
}

// Copy stores a run that came from elsewhere: what an import does. It fails with
// an error for which errors.Is(err, fs.ErrExist) if the store has a run of that
// ID. If it fails later, what was copied so far stays, incomplete.
func Copy(ctx context.Context, dst bench.Store, run *bench.Run) error {
	w := &rewriter{store: dst, id: run.Header.ID}
	var err error
	header := run.Header
	header.Imported = true
	if w.RunWriter, err = dst.Create(ctx, header); err != nil {
		return err
	}
	return errors.Join(replay(ctx, run, w, w.resume), w.Close())
}

// A rewriter is a RunWriter of a store that can be resumed in the middle.
type rewriter struct {
	bench.RunWriter
	store bench.Store
	id    string
}

// resume closes the writer and opens it again as the original run did.
func (w *rewriter) resume(ctx context.Context, r bench.Resumption) error {
	if err := w.Close(); err != nil {
		return err
	}
	next, err := w.store.Resume(ctx, w.id, r)
	if err != nil {
		return err
	}
	w.RunWriter = next
	return nil
}

// replay writes the run's samples with its resumptions where they happened.
func replay(ctx context.Context, run *bench.Run, w bench.RunWriter, resume func(context.Context, bench.Resumption) error) error {
	resumptions := run.Resumptions
	for seq := 0; seq <= len(run.Samples); seq++ {
		for len(resumptions) > 0 && resumptions[0].Seq <= seq {
			if err := resume(ctx, resumptions[0]); err != nil {
				return err
			}
			resumptions = resumptions[1:]
		}
		if seq < len(run.Samples) {
			if err := w.Append(ctx, run.Samples[seq]); err != nil {
				return err
			}
		}
	}
	if len(resumptions) > 0 {
		return fmt.Errorf("run %s: a resumption at trial %d, after %d samples", run.Header.ID, resumptions[0].Seq, len(run.Samples))
	}
	if run.End == nil {
		return nil
	}
	return w.Finish(ctx, *run.End)
}
