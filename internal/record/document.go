package record

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tare-bench/tare/internal/bench"
)

// A document is a run as one JSON object, for programs that would rather parse
// one thing than many lines. It has the fields of the lines, under other roofs.
type document struct {
	Tare    string `json:"tare"`
	Version int    `json:"version"`
	bench.Header
	Samples     []sample           `json:"samples"`
	Resumptions []bench.Resumption `json:"resumptions,omitempty"`
	End         *bench.End         `json:"end"` // null while incomplete
}

// documentKind is the value of "tare" in a document.
const documentKind = "run"

// WriteDocument writes one run as a single JSON object. It cannot be imported:
// nothing of it is readable until all of it is there, which is what the lines
// are for.
func WriteDocument(w io.Writer, run *bench.Run) error {
	if err := ValidateHeader(&run.Header); err != nil {
		return err
	}
	m, err := newMetrics(run.Header.Metrics)
	if err != nil {
		return err
	}
	doc := document{
		Tare: documentKind, Version: Version, Header: run.Header,
		Samples: make([]sample, len(run.Samples)), Resumptions: run.Resumptions, End: run.End,
	}
	for i := range run.Samples {
		s := &run.Samples[i]
		if err := ValidateSample(&run.Header, i, s); err != nil {
			return fmt.Errorf("run %s: %w", run.Header.ID, err)
		}
		doc.Samples[i] = encodeSample(s, m)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}
