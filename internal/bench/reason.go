package bench

import "strings"

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
