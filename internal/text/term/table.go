package term

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/text/plain"
)

const (
	// Gap is how many blanks are between columns.
	Gap = 2
	// narrowest is the least that a column shrinks to: less is no text any more.
	narrowest = 12
)

// WriteTable writes rows of as many cells each in columns. What a cell hides is made plain.
// Where rows are wider than they may be, the widest columns give way, and their text goes
// on below. Errors are for w to remember, as they are in WriteWrapped.
func WriteTable(w io.Writer, rows [][]string, columns int) {
	rows = slices.Clone(rows)
	var widths []int
	for i, row := range rows {
		rows[i] = plainRow(row)
		widths = Widen(widths, rows[i])
	}
	if columns != Unlimited {
		shrink(widths, columns)
	}
	for _, row := range rows {
		for _, line := range wrapRow(row, widths) {
			fmt.Fprint(w, line)
		}
	}
}

func plainRow(row []string) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		out[i] = plain.Line(cell)
	}
	return out
}

// Widen makes columns, of which there may be none yet, wide enough for some cells.
func Widen(widths []int, cells []string) []int {
	for i, cell := range cells {
		if i == len(widths) {
			widths = append(widths, 0)
		}
		widths[i] = max(widths[i], Width(cell))
	}
	return widths
}

// Sum is how wide columns are together, with the gaps between them.
func Sum(widths []int) int {
	sum := Gap * max(0, len(widths)-1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// shrink takes from the widest column until all fit, as long as one can give.
func shrink(widths []int, columns int) {
	for sum := Sum(widths); sum > columns; sum-- {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}

// wrapRow is a row as lines: as many as its longest cell takes.
func wrapRow(row []string, widths []int) (lines []string) {
	cells := make([][]string, len(row))
	count := 1
	for i, text := range row {
		if cells[i] = []string{text}; Width(text) > widths[i] {
			cells[i] = WrapBreaking(text, widths[i])
		}
		count = max(count, len(cells[i]))
	}
	for n := range count {
		line := make([]string, len(row))
		for i, cell := range cells {
			if n < len(cell) {
				line[i] = cell[n]
			}
		}
		lines = append(lines, Line(line, widths))
	}
	return lines
}

// Line is a row as a line of a table, with its end. Its last cell needs no width.
func Line(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		if i < len(row)-1 {
			cell = Pad(cell, widths[i]+Gap, false)
		}
		b.WriteString(cell)
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
