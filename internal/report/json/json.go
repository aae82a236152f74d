// Package json renders a report as JSON, in the versioned form that
// docs/report-format.md specifies.
package json

import (
	"io"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Write renders a report, indented, with a newline at its end.
func Write(w io.Writer, d *report.Document) error {
	return plain.WriteJSON(w, d, "  ")
}
