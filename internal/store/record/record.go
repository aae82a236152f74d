// Package record reads and writes the format in which runs are exchanged:
// versioned JSON lines, specified in docs/format.md.
//
// A stream has whole runs, one after the other. The first line of a run is its header. Each sample
// is a line of its own and is written at once, so a killed writer leaves a run that is incomplete
// but not corrupt. Everything that is read is valid: indices are in range, samples are in order,
// and every value belongs to a declared metric.
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

// MaxLine is the length of the longest line that is read or written, in bytes, including its
// newline.
const MaxLine = 16 << 20

// ErrVersion means that a stream has a format that is newer than Version.
var ErrVersion = errors.New("the record was written by a newer version of tare")

// An Error is an error in a stream, with its line.
type Error struct {
	Line int // from 1
	Err  error
}

// Error returns the line and what is wrong.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Read yields the runs of a stream in their order. A run without an End is incomplete: its writer
// still runs or was killed, or its last line was cut off. The first error comes with a nil run and
// ends the sequence; an error in the stream is an *Error.
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
			if run != nil && (err != nil || e.Header != nil) { // the run ends without an End
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

// addTo adds the event to the run; a header begins a new run.
func (e Event) addTo(run *bench.Run) *bench.Run {
	switch {
	case e.Header != nil:
		return &bench.Run{Header: *e.Header}
	case e.Sample != nil:
		if run.Samples == nil { // a slice that grows is in memory twice
			run.Samples = make([]bench.Sample, 0, min(maxRoom, scheduled(&run.Header)))
		}
		run.Samples = append(run.Samples, *e.Sample)
	case e.Resumption != nil:
		run.Resumptions = append(run.Resumptions, *e.Resumption)
	case e.End != nil:
		run.End = e.End
	}
	return run
}

// maxRoom limits for how many samples there is room before the first one is read: any number can be
// planned.
const maxRoom = 1 << 20

// scheduled is the number of trials in a run's schedule.
func scheduled(h *bench.Header) (n int) {
	for _, block := range h.Schedule {
		n += len(block)
	}
	return n
}

// Events yields the pieces of a run in the order in which they were stored.
func Events(run *bench.Run) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !yield(Event{Header: &run.Header}, nil) {
			return
		}
		resumptions := run.Resumptions
		for seq := 0; seq <= len(run.Samples); seq++ {
			for len(resumptions) > 0 && resumptions[0].Seq <= seq {
				if !yield(Event{Resumption: &resumptions[0]}, nil) {
					return
				}
				resumptions = resumptions[1:]
			}
			if seq < len(run.Samples) && !yield(Event{Sample: &run.Samples[seq]}, nil) {
				return
			}
		}
		switch {
		case len(resumptions) > 0:
			yield(Event{}, fmt.Errorf("run %s: it has a resumption at trial %d, but only %d samples", run.Header.ID,
				resumptions[0].Seq, len(run.Samples)))
		case run.End != nil:
			yield(Event{End: run.End}, nil)
		}
	}
}

// A Streamer is a bench.Store that returns a run piece by piece, and never holds all of it in
// memory.
type Streamer interface {
	Events(ctx context.Context, id string) iter.Seq2[Event, error]
}

// Stored yields the pieces of a stored run, the header first. An error ends the sequence; the
// errors are those of bench.Store.Open.
func Stored(ctx context.Context, s bench.Store, id string) iter.Seq2[Event, error] {
	if streamer, ok := s.(Streamer); ok {
		return streamer.Events(ctx, id)
	}
	run, err := s.Open(ctx, id)
	if err != nil {
		return func(yield func(Event, error) bool) { yield(Event{}, err) }
	}
	return Events(run)
}

// Collect joins the pieces of a run.
func Collect(events iter.Seq2[Event, error]) (*bench.Run, error) {
	return collect(events, func(*bench.Sample) {})
}

// CollectValues joins the pieces of a run, all but the series, distributions and traces of samples:
// no analysis needs them, and they can take most of the memory.
func CollectValues(events iter.Seq2[Event, error]) (*bench.Run, error) {
	return collect(events, func(s *bench.Sample) { s.Series, s.Distributions, s.Trace = nil, nil, nil })
}

// CollectSingles joins the pieces of a run, all but the traces of samples whose trials were not run for them:
// no analysis needs those.
func CollectSingles(events iter.Seq2[Event, error]) (*bench.Run, error) {
	return collect(events, func(s *bench.Sample) {
		if !s.Trial.Traced {
			s.Trace = nil
		}
	})
}

// CollectTraced joins the pieces of a run, all but the series and distributions of samples, which no
// timeline needs.
func CollectTraced(events iter.Seq2[Event, error]) (*bench.Run, error) {
	return collect(events, func(s *bench.Sample) { s.Series, s.Distributions = nil, nil })
}

// collect joins the pieces of a run, and calls f on each sample of it.
func collect(events iter.Seq2[Event, error], f func(*bench.Sample)) (*bench.Run, error) {
	var run *bench.Run
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		run = e.addTo(run)
		if e.Sample != nil {
			f(&run.Samples[len(run.Samples)-1])
		}
	}
	return run, nil
}

// Write writes one run, complete or not.
func Write(w io.Writer, run *bench.Run) error { return WriteEvents(w, Events(run)) }

// WriteEvents writes one run from its pieces.
func WriteEvents(w io.Writer, events iter.Seq2[Event, error]) error {
	ctx := context.Background()
	var rw *Writer
	for e, err := range events {
		switch {
		case err != nil:
			return err
		case e.Header != nil:
			rw, err = NewWriter(w, *e.Header)
		case e.Sample != nil:
			err = rw.Append(ctx, *e.Sample)
		case e.Resumption != nil:
			err = rw.Resume(*e.Resumption)
		case e.End != nil:
			err = rw.Finish(ctx, *e.End)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
