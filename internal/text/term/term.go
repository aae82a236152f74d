// Package term lays out text for a terminal: how many columns it takes, where its lines
// break, and tables. Wide characters, such as Chinese ones, take two columns, and
// combining ones none.
package term

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/tare-bench/tare/internal/text/plain"
)

// Unlimited is the width of what is not a terminal: lines do not break.
const Unlimited = 0

// Width is how many columns a text of one line takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 { // nearly everything
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// Pad fills a text up to n columns with blanks: at its left where it belongs to the right.
func Pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(0, n-Width(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// Shorten cuts a text to at most n columns, at least one, and shows that it did.
func Shorten(s string, n int) string {
	if Width(s) <= n {
		return s
	}
	return prefix(s, n-1) + "…"
}

// prefix returns the longest beginning that takes at most n columns.
func prefix(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += runeWidth(r); used > n {
			return s[:i]
		}
	}
	return s
}

// Wrap breaks a text between words into lines of at most n columns. A word that is longer
// stays whole. An empty text has no lines.
func Wrap(text string, n int) []string {
	return fillLines(strings.Fields(text), n)
}

// WrapBreaking is Wrap for lines that must fit: a word that is longer is broken too, in a path
// or a list where one of its names ends.
func WrapBreaking(text string, n int) []string {
	n = max(n, 2) // a wide character must fit
	var lines, words []string
	for word := range strings.FieldsSeq(text) {
		for Width(word) > n {
			head := breakWord(prefix(word, n))
			lines, words = append(append(lines, fillLines(words, n)...), head), nil
			word = word[len(head):]
		}
		words = append(words, word)
	}
	return append(lines, fillLines(words, n)...)
}

// fillLines puts words into as few lines as they take.
func fillLines(words []string, n int) (lines []string) {
	used := 0
	for i, word := range words {
		w := Width(word)
		if i == 0 || used+1+w > n {
			lines, used = append(lines, word), w
			continue
		}
		lines[len(lines)-1] += " " + word
		used += 1 + w
	}
	return lines
}

// breakWord ends a part of a path, a list or a setting where one of its names does, unless that
// leaves less than half.
func breakWord(s string) string {
	if i := strings.LastIndexAny(s, "/,=") + 1; 2*i >= len(s) {
		return s[:i]
	}
	return s
}

// WriteWrapped writes a text after a beginning, and goes on below the text. What the text
// hides is made plain, and words stay whole.
func WriteWrapped(w io.Writer, begin, text string, columns int) {
	WriteHanging(w, begin, Width(begin), text, columns)
}

// WriteHanging is WriteWrapped where the text goes on after that many blanks: for a
// beginning that has colour.
func WriteHanging(w io.Writer, begin string, hang int, text string, columns int) {
	const least = 20 // narrower columns are no text any more
	text = plain.Text(text)
	lines := strings.Split(text, "\n")
	if columns != Unlimited {
		lines = Wrap(text, max(columns-hang, least))
	}
	for i := range max(1, len(lines)) {
		if i < len(lines) {
			begin += lines[i]
		}
		fmt.Fprintln(w, strings.TrimRight(begin, " "))
		begin = strings.Repeat(" ", hang)
	}
}
