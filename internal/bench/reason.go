package bench

import (
	"path"
	"regexp"
	"slices"
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

// BriefReason is a reason without what nobody reads: of a command line only the program, of an ID
// only the beginning. Sample and --json keep the whole.
func BriefReason(reason string) string {
	parts := strings.Split(reason, ": ")
	for i, part := range parts {
		if words := strings.Fields(part); isCommandLine(words) {
			parts[i] = path.Base(words[0]) + " …"
		}
	}
	return longID.ReplaceAllString(strings.Join(parts, ": "), "$1")
}

// isCommandLine reports whether words are a program with flags, and more of them than people read.
func isCommandLine(words []string) bool {
	const readable = 4
	return len(words) > readable && path.IsAbs(words[0]) &&
		slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
}

var longID = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\b`)
