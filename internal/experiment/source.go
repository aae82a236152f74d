package experiment

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the largest file that Parse reads: far more than any real
// experiment needs. The YAML lexer's time grows with the square of some files'
// length; at this one the worst that were found cost less than a second.
const MaxBytes = 64 << 10

const (
	maxTokens = 20_000 // the YAML parser's time grows with their square, too
	maxDepth  = 16     // of nesting
)

// A span is a place: in the file, or a flag of the command line.
type span struct {
	flag   string // such as "--blocks"; then there is no line
	line   int    // from 1
	column int    // from 1, in characters
	width  int    // characters to underline; at least 1
}

// A source is the text of an experiment, kept to show its lines in errors.
type source struct {
	name  string
	lines []string
}

// newSource checks that data is text that can be shown and parsed at all, and
// returns it with its line ends made uniform.
func newSource(name string, data []byte, r *reader) (*source, []byte) {
	s := &source{name: name}
	r.src = s
	if len(data) > MaxBytes {
		r.fail(span{}, fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10), "an experiment is a page of text")
		return s, nil
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		r.fail(span{}, "the file is UTF-16", "save it as UTF-8")
		return s, nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	s.lines = strings.Split(string(data), "\n")
	for i, line := range s.lines {
		if at, what := unreadable(line); what != "" {
			r.fail(span{line: i + 1, column: at, width: 1}, what, "save the file as UTF-8 text")
			return s, nil
		}
	}
	return s, data
}

// unreadable finds the first character of a line that no text has.
func unreadable(line string) (column int, what string) {
	column = 1
	for i, c := range line {
		_, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return column, fmt.Sprintf("byte 0x%02x is not UTF-8", line[i])
		case c == 0:
			return column, "there is a NUL byte here"
		case c != '\t' && unicode.IsControl(c):
			return column, fmt.Sprintf("control character %U is not allowed", c)
		}
		column++
	}
	return 0, ""
}

// line returns the text of a line, and whether there is one.
func (s *source) line(n int) (string, bool) {
	if n < 1 || n > len(s.lines) {
		return "", false
	}
	return s.lines[n-1], true
}
