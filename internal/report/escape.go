package report

import "github.com/tare-bench/tare/internal/text/plain"

// unitName is a unit as it is shown. One that is longer than any unit is cut,
// so that it cannot make a column as wide as it likes.
func unitName(u string) string {
	if s := []rune(plain.Line(u)); len(s) > 12 {
		return string(s[:11]) + "…"
	}
	return plain.Line(u)
}
