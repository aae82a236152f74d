package report

import (
	"fmt"
	"strings"
	"unicode"
)

// Clean makes a text from outside harmless in a terminal and in a line of a
// table: what could move the cursor, colour the text, break the line or turn
// its direction is written as an escape, and so is what is not UTF-8.
func Clean(s string) string {
	if !strings.ContainsFunc(s, dangerous) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !dangerous(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// dangerous reports whether r does anything but show itself. Among them are
// controls, line separators, and all invisible format characters, with which
// text can be turned around or hidden.
func dangerous(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs)
}

// unitName is a unit as it is shown. One that is longer than any unit is cut,
// so that it cannot make a column as wide as it likes.
func unitName(u string) string {
	if s := []rune(Clean(u)); len(s) > 12 {
		return string(s[:11]) + "…"
	}
	return Clean(u)
}
