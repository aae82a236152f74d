package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

var _ bench.RunWriter = (*Writer)(nil)

// A Writer writes one run. Each line is one call of the underlying Write, without buffering, so
// appended samples are safe whatever happens to this process. After an error of the underlying
// writer, which may have cut a line, the Writer writes nothing more and returns that error again.
type Writer struct {
	w       io.Writer
	header  bench.Header
	metrics metrics
	next    int // the Seq of the next sample
	ended   bool
	err     error
}

// NewWriter writes the header of a run to w and returns a Writer for the rest.
func NewWriter(w io.Writer, h bench.Header) (*Writer, error) {
	h.Imported = false // only a store needs this field
	if err := ValidateHeader(&h); err != nil {
		return nil, err
	}
	m, err := newMetrics(h.Metrics)
	if err != nil {
		return nil, err
	}
	rw := &Writer{w: w, header: h, metrics: m}
	return rw, rw.write(headerLine{Tare: kind, Version: Version, Header: h})
}

// Append writes one sample.
func (w *Writer) Append(ctx context.Context, s bench.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ended {
		return fmt.Errorf("run %s: %w", w.header.ID, bench.ErrFinished)
	}
	if err := ValidateSample(&w.header, w.next, &s); err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	if err := w.write(struct {
		Sample sample `json:"sample"`
	}{encodeSample(&s, w.metrics)}); err != nil {
		return err
	}
	w.next++
	return nil
}

// Resume writes a resumption of the run.
func (w *Writer) Resume(r bench.Resumption) error {
	if w.ended {
		return fmt.Errorf("run %s: %w", w.header.ID, bench.ErrFinished)
	}
	if err := ValidateResumption(&w.header, w.next, &r); err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	w.header = w.header.Extended(r)
	return w.write(struct {
		Resumed bench.Resumption `json:"resumed"`
	}{r})
}

// Finish writes the end of the run.
func (w *Writer) Finish(ctx context.Context, e bench.End) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ended {
		return fmt.Errorf("run %s: %w", w.header.ID, bench.ErrFinished)
	}
	if err := ValidateEnd(&e); err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	if err := w.write(struct {
		End bench.End `json:"end"`
	}{e}); err != nil {
		return err
	}
	w.ended = true
	return nil
}

// Close does nothing: the underlying writer belongs to the caller.
func (w *Writer) Close() error { return nil }

// write writes one line.
func (w *Writer) write(v any) error {
	if w.err != nil {
		return w.err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read this too, and no browser does
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	text := addSum(plain.JSON(b.Bytes()))
	if len(text) > MaxLine {
		return fmt.Errorf("run %s: %w", w.header.ID, errLongLine)
	}
	_, w.err = w.w.Write(text)
	return w.err
}

// errLongLine means that a line to read or write is too long.
var errLongLine = errors.New("the line has more than 16 MiB")
