package figure

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/text/plain"
)

const (
	endRoom  = 9  // characters of a name beside the end of its line
	endSpace = 60 // the room that they take
	mostEnds = 8  // names that have room beside a panel
	keyRow   = 15 // the height of a line of the key
	letter   = 12 // the least distance of two names
)

// names tell the lines of a panel apart: beside their ends where they are short, or else in a
// key below it, where they are whole.
type names []string

// beside reports whether all names have room beside their lines.
func (n names) beside() bool {
	tooLong := func(s string) bool { return utf8.RuneCountInString(plain.Line(s)) > endRoom }
	return len(n) <= mostEnds && !slices.ContainsFunc(n, tooLong)
}

// right is where the panel ends, so that there is room for names.
func (n names) right() float64 {
	if n.beside() {
		return width - endSpace
	}
	return width - margin
}

// height is that of the key below the panel.
func (n names) height() float64 {
	if n.beside() {
		return 0
	}
	return float64(len(n)*keyRow + 4)
}

// write puts the names beside the ends of their lines, or into the key from y on. A cell without
// a line has its end at the origin, and no name beside it.
func (n names) write(c *canvas, ends []point, y float64) {
	if !n.beside() {
		for i, name := range n {
			at := y + float64(i*keyRow) + 10
			c.polyline([]point{{margin, at - 4}, {margin + 34, at - 4}}, lineInk(i), 1.8, dashes(i))
			c.text(margin+40, at, left, words, small, shorten(plain.Line(name), 50))
		}
		return
	}
	var order []int
	for i := range ends {
		if ends[i].x > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ends[a].y, ends[b].y) })
	at := apart(order, ends)
	for k, i := range order {
		c.text(n.right()+8, at[k]+4, left, lineInk(i), small, plain.Line(n[i]))
	}
}

// apart moves names that would cover one another away from their lines, as little as it takes, and
// not above the first line of the panel.
func apart(order []int, ends []point) []float64 {
	at := make([]float64, len(order))
	for k, i := range order {
		at[k] = ends[i].y
	}
	for range 100 {
		moved := false
		for k := 1; k < len(at); k++ {
			if gap := letter - (at[k] - at[k-1]); gap > 0.05 {
				at[k-1], at[k], moved = at[k-1]-gap/2, at[k]+gap/2, true
			}
		}
		if !moved {
			break
		}
	}
	for k := range at {
		at[k] = max(at[k], float64(topSpace+k*letter))
	}
	return at
}
