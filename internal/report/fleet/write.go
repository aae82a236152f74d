package fleet

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/tare-bench/tare/internal/text/plain"
)

// WriteJSON writes the document, indented.
func WriteJSON(w io.Writer, d *Document) error { return plain.WriteJSON(w, d, "  ") }

// WriteCSV writes a row for each node and metric (RFC 4180), in base units, with a line of names first.
func WriteCSV(w io.Writer, d *Document) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	rows := [][]string{{
		"node", "group", "zone", "state", "reason", "rounds", "metric", "unit", "better", "verdict", "ratio", "low", "high",
		"adjusted_p", "noise", "run",
	}}
	for _, n := range d.Nodes {
		begin := []string{
			plain.Cell(n.Name), plain.Cell(n.Group), plain.Cell(n.Zone), string(n.State), plain.Cell(n.Reason),
			strconv.Itoa(n.Rounds),
		}
		if len(n.Findings) == 0 {
			rows = append(rows, append(append(begin, make([]string, 9)...), plain.Cell(n.Run)))
		}
		for i, f := range n.Findings {
			m := d.Metrics[i]
			row := append(begin[:len(begin):len(begin)], plain.Cell(m.Name), plain.Cell(m.Unit), string(m.Better),
				string(f.Verdict))
			rows = append(rows, append(row, number(f.Ratio), number(f.Low), number(f.High), number(f.Adjusted),
				number(f.Noise), plain.Cell(n.Run)))
		}
	}
	for _, o := range d.LeftOut {
		row := append([]string{plain.Cell(o.Name), "", "", "left out", plain.Cell(o.Reason)}, make([]string, 11)...)
		rows = append(rows, row)
	}
	if err := out.WriteAll(rows); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}
