// Package plain makes foreign text harmless where it is shown: names in records and
// images, what engines and registries say, and the words of users.
package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line is text for one line: what could move the cursor, colour the text, break the
// line, turn its direction or hide is written as an escape, and so is what is not UTF-8.
func Line(s string) string { return escaped(s, IsHidden) }

// Text is Line for what may have several lines, and tabs.
func Text(s string) string {
	return escaped(s, func(r rune) bool { return r != '\n' && r != '\t' && IsHidden(r) })
}

// IsHidden reports whether r does anything but show itself: controls, line separators, and
// what is invisible, with which text can be turned around or told apart only by programs.
func IsHidden(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsControl(r) ||
		unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func escaped(s string, hidden func(rune) bool) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// WriteJSON writes a value as JSON for people too: with escapes for what hides, and
// without those that only a browser needs. It is one Write, of which the error is
// returned, as is that of a value that JSON has no form for.
func WriteJSON(w io.Writer, v any, indent string) error {
	return write(w, v, "", "", indent, "\n")
}

// write writes a value between two texts. Lines of it after the first begin with prefix.
func write(w io.Writer, v any, before, prefix, indent, after string) error {
	b := bytes.NewBufferString(before)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	_, err := w.Write(append(slices.Clip(text), after...))
	return err
}

// A List writes a JSON list as WriteJSON would, but element by element, so that nobody
// holds all of it.
type List struct {
	W io.Writer
	n int
}

// Add writes the next element.
func (l *List) Add(v any) error {
	before := ",\n"
	if l.n == 0 {
		before = "[\n"
	}
	l.n++
	return write(l.W, v, before+"  ", "  ", "  ", "")
}

// Close writes the list's end.
func (l *List) Close() error {
	end := "\n]\n"
	if l.n == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(l.W, end)
	return err
}

// JSON is a JSON text of the same meaning in which every hidden character that
// encoding/json lets pass is an escape. Such characters only occur in strings.
func JSON(text []byte) []byte {
	hidden := func(r rune) bool { return r >= 0x7f && r != unicode.ReplacementChar && IsHidden(r) }
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
