package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown is how many problems an Error prints; a file with more has one
// mistake that makes many.
const maxShown = 10

// An Error is everything that is wrong with an experiment. It is the type of
// every error that this package returns.
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
	for i, line := range wrap(p.Hint) {
		mark := "="
		if i > 0 {
			mark = " "
		}
		fmt.Fprintf(&b, "\n    %s %s", mark, line)
	}
	return b.String()
}

// wrap breaks a hint into lines that fit a terminal of 80 columns.
func wrap(hint string) []string {
	const most = 72
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(hint) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > most {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
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
	text, caret = string(shown), strings.Repeat(" ", begin-first)+strings.Repeat("^", width)
	if first > 0 {
		text, caret = "…"+text, " "+caret
	}
	if last < len(runes) {
		text += "…"
	}
	return strings.TrimRight(text, " "), caret
}

// A reader collects the problems found while an experiment is read, so that
// one look shows them all.
type reader struct {
	src      *source
	problems []Problem
	more     int
}

// maxKept bounds what a file of mistakes costs. The others are counted.
const maxKept = 100

// full reports whether further problems are only counted.
func (r *reader) full() bool { return len(r.problems) == maxKept }

// fail notes a problem. The hint says what would be right; it may be empty.
func (r *reader) fail(at span, message, hint string) {
	if r.full() {
		r.more++
		return
	}
	p := Problem{File: r.src.name, Flag: at.flag, Message: message, Hint: hint}
	if line, ok := r.src.line(at.line); ok && at.flag == "" {
		p.Line, p.Column, p.Width, p.Source = at.line, at.column, at.width, line
	}
	r.problems = append(r.problems, p)
}

// err returns an *Error with what was found, or nil.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	r.problems = slices.Compact(r.problems)
	// A list of everything that would be right is said once.
	said := map[string]bool{}
	for i, p := range r.problems {
		if long := len(p.Hint) > 100; long && said[p.Hint] {
			r.problems[i].Hint = ""
		}
		said[p.Hint] = true
	}
	shown := min(len(r.problems), maxShown)
	return &Error{Problems: r.problems[:shown], More: r.more + len(r.problems) - shown}
}

// quote shows a value in a message, cut where it is long.
func quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// suggest says what an unknown word may have meant: the nearest known one, or
// else all of them.
func suggest(word string, what string, known []string) string {
	if best, ok := nearest(word, known); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	const most = 30
	if len(known) == 0 {
		return ""
	}
	if len(known) > most {
		return fmt.Sprintf("%s: %s and %d more", what, strings.Join(known[:most], ", "), len(known)-most)
	}
	return fmt.Sprintf("%s: %s", what, strings.Join(known, ", "))
}

// nearest returns the known word within a third of the word's length in
// edits; the first of several.
func nearest(word string, known []string) (string, bool) {
	if len(word) > 64 {
		return "", false
	}
	best, distance := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := edits(strings.ToLower(word), k); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// edits counts the insertions, deletions, replacements and swaps of
// neighbours that make b out of a (optimal string alignment).
func edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
