package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// columns is how many columns of a terminal a text takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
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

// pad fills a text up to n columns.
func pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(0, n-columns(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// split breaks a text into lines of at most n columns.
func split(text string, n int) []string {
	n = max(n, 2) // a wide character must fit
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for columns(word) > n {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head := afterSlash(prefix(word, n))
			lines, word = append(lines, head), word[len(head):]
		}
		switch {
		case word == "":
		case line == "":
			line = word
		case columns(line)+1+columns(word) <= n:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// afterSlash ends a part of a path where one of its names does, unless that leaves
// less than half.
func afterSlash(s string) string {
	if i := strings.LastIndexByte(s, '/') + 1; 2*i >= len(s) {
		return s[:i]
	}
	return s
}

// prefix returns the longest beginning that takes at most n columns.
func prefix(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > n {
			return s[:i]
		}
	}
	return s
}
