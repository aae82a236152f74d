package bench

import (
	"regexp"
	"strings"
)

// Reason turns the text of an error into one line of bounded length, as Sample keeps it.
// An error begins with what was done and ends with the cause, so the middle is cut.
func Reason(text string) string {
	const begin, end = 200, 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > begin+end {
		text = strings.ToValidUTF8(text[:begin], "") + " … " + strings.ToValidUTF8(text[len(text)-end:], "")
	}
	return text
}

// ReasonKind is the same for reasons that differ in numbers and IDs alone, such as times, ports,
// containers and file names.
func ReasonKind(reason string) string { return numberOrID.ReplaceAllLiteralString(reason, "0") }

var numberOrID = regexp.MustCompile(`\b[0-9a-f]{12,64}\b|[0-9]+`)
