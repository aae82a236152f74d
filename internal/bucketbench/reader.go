package bucketbench

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/experiment"
)

const (
	maxShown = 10  // problems that an error prints
	maxKept  = 100 // problems kept; the others are counted
)

// A reader collects the problems of one file, so that one look shows them all.
type reader struct {
	name     string
	lines    []string
	problems []experiment.Problem
	more     int
}

// fail notes a problem. The hint says what would be right; it may be empty.
func (r *reader) fail(at place, message, hint string) {
	if len(r.problems) == maxKept {
		r.more++
		return
	}
	p := experiment.Problem{File: r.name, Message: message, Hint: hint}
	if at.line > 0 && at.line <= len(r.lines) {
		p.Line, p.Column, p.Width, p.Source = at.line, at.column, at.width, r.line(at.line)
	}
	r.problems = append(r.problems, p)
}

// err returns an *experiment.Error with what was found, or nil.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b experiment.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	shown := min(len(r.problems), maxShown)
	return &experiment.Error{Problems: r.problems[:shown], More: r.more + len(r.problems) - shown}
}

// line returns the text of a line, empty where there is none.
func (r *reader) line(n int) string {
	if n < 1 || n > len(r.lines) {
		return ""
	}
	return r.lines[n-1]
}

// text checks that data is text that can be shown and parsed at all.
func (r *reader) text(data []byte) (string, bool) {
	if len(data) > experiment.MaxBytes {
		r.fail(place{}, fmt.Sprintf("the file is larger than %d KiB", experiment.MaxBytes>>10), "")
		return "", false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	r.lines = strings.Split(text, "\n")
	for i, line := range r.lines {
		if column := unreadable(line); column > 0 {
			r.fail(place{i + 1, column, 1}, "this character is no text", "save the file as UTF-8")
			return "", false
		}
	}
	return text, true
}

// unreadable returns the column of the first character that no text has, or 0.
func unreadable(line string) int {
	column := 1
	for i, c := range line {
		_, size := utf8.DecodeRuneInString(line[i:])
		if c == utf8.RuneError && size == 1 || c != '\t' && unicode.IsControl(c) {
			return column
		}
		column++
	}
	return 0
}

// quote shows a value in a message, cut where it is long.
func quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
