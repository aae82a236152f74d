package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// documentKind is the value of "tare" in a document.
const documentKind = "run"

// A document is a run as one JSON value, for programs that would rather read
// that than lines. Its parts are those of the lines.
//
//	{"tare": "run", "version": 1, "header": {}, "samples": [], "resumptions": [], "end": {}}
//
// It is written part by part, as the run is read; end is null where that is incomplete.
type document struct {
	w     io.Writer
	parts int // of the list that is being written
}

// WriteDocument writes a run as one JSON document with everything that is
// stored of it. It cannot be imported again; Write's lines can.
func WriteDocument(w io.Writer, events iter.Seq2[Event, error]) error {
	d := document{w: w}
	var header *bench.Header
	var m metrics
	var resumptions []bench.Resumption
	var end *bench.End
	next := 0
	for e, err := range events {
		switch {
		case err != nil:
			return err
		case e.Header != nil:
			header = e.Header
			m, err = d.begin(header)
		case e.Sample != nil:
			if err := ValidateSample(header, next, e.Sample); err != nil {
				return fmt.Errorf("run %s: %w", header.ID, err)
			}
			next++
			err = d.element(encodeSample(e.Sample, m))
		case e.Resumption != nil:
			resumptions = append(resumptions, *e.Resumption)
			extended := header.Extended(*e.Resumption)
			header = &extended
		case e.End != nil:
			end = e.End
		}
		if err != nil {
			return err
		}
	}
	return d.finish(resumptions, end)
}

// begin writes what comes before the first sample.
func (d *document) begin(h *bench.Header) (m metrics, err error) {
	if err := ValidateHeader(h); err != nil {
		return m, err
	}
	if m, err = newMetrics(h.Metrics); err != nil {
		return m, err
	}
	_, err = fmt.Fprintf(d.w, "{\n  \"tare\": %q,\n  \"version\": %d,\n  \"header\": ", documentKind, Version)
	if err == nil {
		err = d.value(h, "  ")
	}
	return m, errors.Join(err, d.text(",\n  \"samples\": ["))
}

// finish writes what comes behind the last sample.
func (d *document) finish(resumptions []bench.Resumption, end *bench.End) error {
	if err := errors.Join(d.close(), d.text(",\n  \"resumptions\": [")); err != nil {
		return err
	}
	for _, r := range resumptions {
		if err := d.element(r); err != nil {
			return err
		}
	}
	if err := errors.Join(d.close(), d.text(",\n  \"end\": ")); err != nil {
		return err
	}
	return errors.Join(d.value(end, "  "), d.text("\n}\n"))
}

// element writes the next element of a list.
func (d *document) element(v any) error {
	before := ",\n    "
	if d.parts == 0 {
		before = "\n    "
	}
	d.parts++
	if err := d.text(before); err != nil {
		return err
	}
	return d.value(v, "    ")
}

// close ends a list.
func (d *document) close() error {
	end := "\n  ]"
	if d.parts == 0 {
		end = "]"
	}
	d.parts = 0
	return d.text(end)
}

// value writes a value that begins so far from the left.
func (d *document) value(v any, prefix string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := d.w.Write(bytes.TrimSuffix(plain.JSON(b.Bytes()), []byte("\n")))
	return err
}

func (d *document) text(s string) error {
	_, err := io.WriteString(d.w, s)
	return err
}
