package yamldoc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/text/unit"
)

// A Note is a difference in meaning between an experiment and the file of another program that it
// was made from.
type Note struct {
	Line int    `json:"line,omitempty"` // of that file, from 1; 0 = about all of it
	Text string `json:"text"`           // one or more sentences, on one line
}

// String is the note with its line, if it has one.
func (n Note) String() string {
	if n.Line == 0 {
		return n.Text
	}
	return fmt.Sprintf("line %d: %s", n.Line, n.Text)
}

// A Writer writes a file, line by line.
type Writer struct{ text strings.Builder }

// Bytes is what was written.
func (w *Writer) Bytes() []byte { return []byte(w.text.String()) }

// Line writes a line.
func (w *Writer) Line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// Origin writes a comment that says what the file was made from, and the differences in meaning.
func (w *Writer) Origin(from string, notes []Note) {
	w.Comment("Written by tare from " + from + ".")
	w.Comment("Differences in meaning, by the lines of that file:")
	w.Line("#")
	for _, n := range notes {
		w.Comment("- " + n.String())
	}
	w.Line("")
}

// Comment writes a paragraph in lines of at most 100 characters, all of which can be shown: a file may
// be called anything.
func (w *Writer) Comment(text string) {
	const most = 98
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, text)
	indent := ""
	if strings.HasPrefix(text, "- ") {
		indent = "  "
	}
	var line []string
	width := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		if width > 0 && width+1+n > most {
			w.Line("# %s", strings.Join(line, " "))
			line, width = []string{indent + word}, len(indent)+n
			continue
		}
		line, width = append(line, word), width+1+n
	}
	w.Line("# %s", strings.Join(line, " "))
}

// plain is text that YAML takes for itself, whatever stands around it.
var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)

// Word is a line of text as YAML, in quotes where they are needed. Its characters can be shown.
func Word(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
	default:
		if plain.MatchString(s) {
			return s
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Words are texts as the items of a list.
func Words(all []string) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = Word(s)
	}
	return strings.Join(words, ", ")
}

// Numbers are whole numbers as the items of a list.
func Numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// Duration is a time without a space, such as "1m30s".
func Duration(d time.Duration) string { return strings.ReplaceAll(unit.FormatDuration(d), " ", "") }
