// Package json renders a report as JSON, in the versioned form that
// docs/report-format.md specifies.
package json

import (
	"bytes"
	"io"
	"regexp"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Write renders a report, indented, with a newline at its end.
func Write(w io.Writer, d *report.Document) error {
	var b bytes.Buffer
	if err := plain.WriteJSON(&b, d, "  "); err != nil {
		return err
	}
	_, err := w.Write(joinNumbers(b.Bytes()))
	return err
}

// numberList is an indented list of numbers. No string contains a line break, so it is never
// part of one.
var numberList = regexp.MustCompile(`\[\n *(?:-?[0-9][-+.0-9eE]*|null)(?:,\n *(?:-?[0-9][-+.0-9eE]*|null))*\n *\]`)

// joinNumbers puts each list of numbers on one line: a run has a value for each block.
func joinNumbers(text []byte) []byte {
	return numberList.ReplaceAllFunc(text, func(list []byte) []byte {
		words := bytes.Fields(list)
		return append(append([]byte("["), bytes.Join(words[1:len(words)-1], []byte(" "))...), ']')
	})
}
