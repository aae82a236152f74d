package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// A Salvager reads everything that can be read of a stream in which lines are damaged. A failed
// sample with bench.NoteDamaged replaces each damaged one, if the lines after it show which one it
// was. Where they do not, the run ends there, and the next header begins the next run. No piece ever
// goes to another run than its own.
type Salvager struct {
	d       *Decoder
	pending []lostLine // damaged lines since the last piece
	ready   []Event    // pieces to return before the next line is read
	header  *bench.Header
	lost    bool // the rest of the run cannot be read
	faults  Faults
}

// A lostLine is a damaged line.
type lostLine struct {
	err    *Error
	sample bool // its beginning says that it is a sample
}

// maxLost limits how many consecutive samples are replaced.
const maxLost = 10_000

// Faults is the error of a stream that could be read only in part.
type Faults struct {
	First error // an *Error
	Lines []int // of the further ones, the first few
	More  int   // how many there are besides
}

// maxFaultLines limits Faults.Lines.
const maxFaultLines = 20

// Error says what is wrong with the first bad line, and which other ones are bad.
func (f *Faults) Error() string {
	if len(f.Lines) == 0 {
		return f.First.Error()
	}
	lines := make([]string, len(f.Lines))
	for i, n := range f.Lines {
		lines[i] = fmt.Sprint(n)
	}
	more := ""
	if f.More > 0 {
		more = fmt.Sprintf(" and %d more", f.More)
	}
	return fmt.Sprintf("%v; further bad lines: %s%s", f.First, strings.Join(lines, ", "), more)
}

// Unwrap returns what is wrong with the first bad line.
func (f *Faults) Unwrap() error { return f.First }

func (f *Faults) add(err *Error) {
	switch {
	case f.First == nil:
		f.First = err
	case len(f.Lines) < maxFaultLines:
		f.Lines = append(f.Lines, err.Line)
	default:
		f.More++
	}
}

// NewSalvager returns a Salvager for r.
func NewSalvager(r io.Reader) *Salvager { return &Salvager{d: NewDecoder(r)} }

// Summed reports whether the lines of the current run have checksums.
func (s *Salvager) Summed() bool { return s.d.Summed() }

// Next returns the next piece that can be read. It returns io.EOF at the end of the stream, an
// *Error if this is no stream of records, and any other error as the reader returned it. What it
// could not read, Faults says.
func (s *Salvager) Next() (Event, error) {
	for {
		if len(s.ready) > 0 {
			e := s.ready[0]
			s.ready = s.ready[1:]
			return e, nil
		}
		e, text, err := s.d.read()
		var bad *Error
		switch {
		case errors.As(err, &bad) && text != nil && s.skip(text, bad):
			s.d.err = nil
		case err != nil:
			return Event{}, err
		default:
			s.take(e)
		}
	}
}

// Faults is nil if all lines could be read.
func (s *Salvager) Faults() error {
	if s.faults.First == nil {
		return nil
	}
	return &s.faults
}

// skip notes a line that cannot be read. It reports whether reading can continue.
func (s *Salvager) skip(text []byte, bad *Error) bool {
	damaged := errors.Is(bad, ErrDamaged) || !json.Valid(text)
	isHeader := bytes.HasPrefix(text, []byte(`{"tare":`))
	switch {
	case s.d.line == 1 && (!damaged || !isHeader), errors.Is(bad, ErrVersion):
		return false // not a record, or one of a newer tare
	case s.lost && !isHeader: // the first bad line of the rest of a run stands for all
		return true
	}
	if damaged || len(s.pending) == 0 { // otherwise it is bad only because of the lines before it
		s.faults.add(bad)
	}
	h := s.d.header
	if !damaged || isHeader || !isOneLine(text) || h == nil || len(h.Schedule) == 0 || len(s.pending) == maxLost {
		s.abandon()
		return true
	}
	s.header = h
	s.pending = append(s.pending, lostLine{bad, bytes.HasPrefix(text, []byte(`{"sample":`))})
	s.d.next++ // which is right if the line was a sample
	return true
}

// isOneLine reports whether a damaged line is surely not several ones without the newlines between
// them. A line that was written has no control characters; a few can come from single bits.
func isOneLine(text []byte) bool {
	control := 0
	for _, c := range bytes.TrimRight(text, "\r\n") {
		if c < ' ' {
			control++
		}
	}
	return control <= 4 && bytes.Count(text, []byte(sumKey)) <= 1 && bytes.Count(text, []byte(`{"sample":`)) <= 1 &&
		!bytes.Contains(text, []byte(`{"tare":`))
}

// abandon gives up the rest of a run.
func (s *Salvager) abandon() { s.lost, s.pending = true, nil }

// take adds a piece that was read to those that are ready, after the replacements of the samples
// before it.
func (s *Salvager) take(e Event) {
	pending := s.pending
	s.pending = nil
	switch {
	case e.Header != nil:
		s.lost = false
	case s.lost:
		return
	case len(pending) > 0 && !s.follows(e, pending):
		s.abandon()
		return
	}
	if e.Header == nil {
		first := s.d.next - len(pending)
		if e.Sample != nil {
			first--
		}
		for i, l := range pending {
			replacement := Damaged(s.header, first+i, l.err)
			s.ready = append(s.ready, Event{Sample: &replacement})
		}
	}
	s.ready = append(s.ready, e)
}

// follows reports whether damaged lines are surely the samples just before a piece, which the
// Decoder has found to be valid after as many samples.
func (s *Salvager) follows(e Event, pending []lostLine) bool {
	if e.Sample != nil {
		return e.Sample.Trial == planned(s.header, e.Sample.Trial.Seq)
	}
	for _, l := range pending {
		if !l.sample {
			return false
		}
	}
	return e.End == nil || endsBlock(s.header, s.d.next)
}

// Damaged is the replacement for a sample that can no longer be read.
func Damaged(h *bench.Header, seq int, why error) bench.Sample {
	s := bench.Sample{
		Trial: planned(h, seq), Outcome: bench.Failed, Reason: bench.Reason(why.Error()), Notes: []string{bench.NoteDamaged},
	}
	if s.Trial.Traced {
		s.MarkTraced()
	}
	return s
}

// planned is the trial of the schedule that is number seq, from 0.
func planned(h *bench.Header, seq int) bench.Trial {
	n := seq
	for block, cells := range h.Schedule {
		if n < len(cells) {
			again := n >= len(h.Plan.Cells) // see package schedule
			return bench.Trial{Seq: seq, Block: block - h.Plan.Warmup, Cell: cells[n], Traced: again}
		}
		n -= len(cells)
	}
	return bench.Trial{Seq: seq}
}

// endsBlock reports whether n samples are whole blocks of the schedule.
func endsBlock(h *bench.Header, n int) bool {
	for _, cells := range h.Schedule {
		if n <= 0 {
			break
		}
		n -= len(cells)
	}
	return n == 0
}
