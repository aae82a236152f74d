package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cell makes a text harmless in a spreadsheet, which takes what begins like this for a formula, and runs it.
func Cell(s string) string {
	s = Line(s)
	// Spreadsheets skip blanks before a formula, and take the wide signs of East Asian
	// keyboards for it too.
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(s, unicode.IsSpace))
	if strings.ContainsRune("=+-@|%＝＋－＠｜％﹦﹢﹣﹫﹪−", first) {
		return "'" + s
	}
	return s
}
