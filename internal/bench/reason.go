package bench

import "strings"

// Reason makes one line of bounded length, such as Sample has, of what an error says.
// What was done is at its beginning, and why it went wrong at its end: the middle goes.
func Reason(text string) string {
	const begin, end = 200, 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > begin+end {
		text = strings.ToValidUTF8(text[:begin], "") + " … " + strings.ToValidUTF8(text[len(text)-end:], "")
	}
	return text
}
