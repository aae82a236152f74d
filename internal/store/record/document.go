package record

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// documentKind is the value of "tare" in a document.
const documentKind = "run"

// WriteDocument writes a run as one JSON value with all stored data, for programs that prefer it to
// lines. Its parts are the same as those of the lines:
//
//	{"tare": "run", "version": 1, "header": {}, "samples": [], "resumptions": [], "end": {}}
//
// end is null if the run is incomplete. A document cannot be imported; lines can.
func WriteDocument(w io.Writer, events iter.Seq2[Event, error]) error {
	var header *bench.Header
	var m metrics
	samples := plain.List{W: w, Indent: "  "}
	rest := struct {
		Resumptions []bench.Resumption `json:"resumptions"`
		End         *bench.End         `json:"end"`
	}{Resumptions: []bench.Resumption{}}
	next := 0
	for e, err := range events {
		switch {
		case err != nil:
			return err
		case e.Header != nil:
			header = e.Header
			m, err = writeDocumentHeader(w, header)
		case e.Sample != nil:
			if err := ValidateSample(header, next, e.Sample); err != nil {
				return fmt.Errorf("run %s: %w", header.ID, err)
			}
			next++
			err = samples.Add(encodeSample(e.Sample, m))
		case e.Resumption != nil:
			rest.Resumptions = append(rest.Resumptions, *e.Resumption)
			extended := header.Extended(*e.Resumption)
			header = &extended
		case e.End != nil:
			rest.End = e.End
		}
		if err != nil {
			return err
		}
	}
	var last strings.Builder
	if err := errors.Join(samples.Close(","), plain.WriteJSON(&last, rest, "  ")); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.TrimPrefix(last.String(), "{"))
	return err
}

// writeDocumentHeader writes the part before the first sample.
func writeDocumentHeader(w io.Writer, h *bench.Header) (m metrics, err error) {
	if err := ValidateHeader(h); err != nil {
		return m, err
	}
	if m, err = newMetrics(h.Metrics); err != nil {
		return m, err
	}
	var first strings.Builder
	err = plain.WriteJSON(&first, struct {
		Tare    string        `json:"tare"`
		Version int           `json:"version"`
		Header  *bench.Header `json:"header"`
	}{documentKind, Version, h}, "  ")
	if err != nil {
		return m, err
	}
	_, err = io.WriteString(w, strings.TrimSuffix(first.String(), "\n}\n")+",\n  \"samples\": ")
	return m, err
}
