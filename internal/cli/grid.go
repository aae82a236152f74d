package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/plain"
)

// narrowest is the least that a column shrinks to: less is no text any more.
const narrowest = 12

// writeGrid prints rows in columns. Where they are wider than they may be, the
// widest columns give way, and their text goes on below.
func writeGrid(w io.Writer, rows [][]string, width int) {
	if len(rows) == 0 {
		return
	}
	rows = plainRows(rows)
	widths := gridWidths(rows, width)
	for _, row := range rows {
		cells := make([][]string, len(row))
		lines := 1
		for i, text := range row {
			cells[i] = folded(text, widths[i])
			lines = max(lines, len(cells[i]))
		}
		for n := range lines {
			var line strings.Builder
			for i, cell := range cells {
				text := ""
				if n < len(cell) {
					text = cell[n]
				}
				fmt.Fprintf(&line, "%-*s", widths[i]+columnGap, text)
			}
			fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		}
	}
}

// plainRows are rows of which every cell is one line that hides nothing.
func plainRows(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			out[i] = append(out[i], plain.Line(cell))
		}
	}
	return out
}

// gridWidths are the widths of the columns.
func gridWidths(rows [][]string, width int) []int {
	widths := make([]int, len(rows[0]))
	sum := -columnGap
	for i := range widths {
		widths[i] = columnWidth(rows, i)
		sum += columnGap + widths[i]
	}
	if width == unlimited {
		return widths
	}
	for ; sum > width; sum-- {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return widths
}

// folded breaks a text into lines of a width, between words where it can.
func folded(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if n := utf8.RuneCountInString(line); n > 0 && n+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		line = word
		for utf8.RuneCountInString(line) > width {
			runes := []rune(line)
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
	}
	return append(lines, line)
}
