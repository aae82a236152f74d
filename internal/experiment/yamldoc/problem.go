package yamldoc

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tare-bench/tare/internal/text/term"
)

// An Error is everything that is wrong with a file.
type Error struct {
	Problems []Problem // in the order of the file; at least one
	More     int       // how many others were found and not kept
}

// A Problem is one mistake and its place.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0 where the mistake is not in a line of the file
	Column  int    `json:"column,omitempty"` // from 1, in characters
	Width   int    `json:"width,omitempty"`  // of the text that is wrong, in characters
	Source  string `json:"source,omitempty"` // the line itself
	Flag    string `json:"flag,omitempty"`   // the flag that is wrong, where it is not the file
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what would be right
}

// Error renders every problem with its line and a caret.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

// String renders the problem as a compiler does.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Flag != "":
		fmt.Fprintf(&b, "%s: %s", p.Flag, p.Message)
	case p.Line == 0:
		fmt.Fprintf(&b, "%s: %s", p.File, p.Message)
	default:
		fmt.Fprintf(&b, "%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		number := fmt.Sprint(p.Line)
		text, caret := excerpt(p.Source, p.Column, p.Width)
		fmt.Fprintf(&b, "\n  %s | %s\n  %*s | %s", number, text, len(number), "", caret)
	}
	const most = 72 // with its indentation it fits a terminal of 80 columns
	for i, line := range term.Wrap(p.Hint, most) {
		mark := "="
		if i > 0 {
			mark = " "
		}
		fmt.Fprintf(&b, "\n    %s %s", mark, line)
	}
	return b.String()
}

// excerpt cuts a long line to the part around the mistake, makes it safe to
// print on a terminal, and draws the caret below it.
func excerpt(line string, column, width int) (text, caret string) {
	const before, most = 40, 76
	runes := []rune(line)
	begin := min(max(column-1, 0), len(runes))
	first := 0
	if len(runes) > most && begin > before {
		first = begin - before
	}
	last := min(len(runes), first+most)
	shown := slices.Clone(runes[first:last])
	for i, c := range shown {
		if c == '\t' {
			shown[i] = ' ' // one column, like the caret's
		} else if !unicode.IsPrint(c) {
			shown[i] = '?'
		}
	}
	width = min(max(width, 1), max(last-begin, 1))
	right, wrong := shown[:begin-first], shown[begin-first:min(begin-first+width, len(shown))]
	caret = strings.Repeat(" ", term.Width(string(right))) + strings.Repeat("^", max(1, term.Width(string(wrong))))
	text = string(shown)
	if first > 0 {
		text, caret = "…"+text, " "+caret
	}
	if last < len(runes) {
		text += "…"
	}
	return strings.TrimRight(text, " "), caret
}
