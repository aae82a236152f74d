package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/plain"
)

// unlimited is the width of what is not a terminal, where lines are for programs
// unless $COLUMNS asks for another.
const unlimited = 0

// lineWidth is how wide lines on stdout may be.
func (a *invocation) lineWidth() int {
	if w, tty := terminal(a.stdout.Writer); tty {
		return w
	}
	if w, ok := a.columns(); ok {
		return w
	}
	return unlimited
}

// writeWrapped writes a text after a beginning, and goes on below it.
func writeWrapped(w io.Writer, begin, text string, width int) {
	writeHanging(w, begin, utf8.RuneCountInString(begin), text, width)
}

// writeHanging is writeWrapped after a beginning of which the width is known. What the
// text hides is made plain; the beginning, which may have colour, is the caller's.
func writeHanging(w io.Writer, begin string, hang int, text string, width int) {
	for _, line := range wrapped(plain.Text(text), width-hang, width == unlimited) {
		fmt.Fprintln(w, strings.TrimRight(begin+line, " "))
		begin = strings.Repeat(" ", hang)
	}
}

// wrapped breaks a text between words. A word that is too long stays whole.
func wrapped(text string, width int, whole bool) []string {
	if whole {
		return strings.Split(text, "\n")
	}
	const least = 20 // narrower columns are no text any more
	width = max(width, least)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
