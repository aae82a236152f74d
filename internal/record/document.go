package record

import (
	"fmt"
	"io"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/plain"
)

// documentKind is the value of "tare" in a document.
const documentKind = "run"

// A document is a run as one JSON value, for programs that would rather read
// that than lines. Its parts are those of the lines.
type document struct {
	Tare        string             `json:"tare"`
	Version     int                `json:"version"`
	Header      bench.Header       `json:"header"`
	Samples     []sample           `json:"samples"`
	Resumptions []bench.Resumption `json:"resumptions"`
	End         *bench.End         `json:"end"` // null where the run is incomplete
}

// WriteDocument writes a run as one JSON document with everything that is
// stored of it. It cannot be imported again; Write's lines can.
func WriteDocument(w io.Writer, run *bench.Run) error {
	if err := ValidateHeader(&run.Header); err != nil {
		return err
	}
	m, err := newMetrics(run.Header.Metrics)
	if err != nil {
		return err
	}
	d := document{
		Tare: documentKind, Version: Version, Header: run.Header, End: run.End,
		Samples:     make([]sample, len(run.Samples)),
		Resumptions: append([]bench.Resumption{}, run.Resumptions...),
	}
	for i := range run.Samples {
		s := &run.Samples[i]
		if err := ValidateSample(&run.Header, i, s); err != nil {
			return fmt.Errorf("run %s: %w", run.Header.ID, err)
		}
		d.Samples[i] = encodeSample(s, m)
	}
	return plain.WriteJSON(w, d, "  ")
}
