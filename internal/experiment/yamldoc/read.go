package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A reader reads one file, and collects what is wrong with it.
type reader struct {
	Problems
	hints Hints
}

func (r *reader) read(data []byte) Node {
	text, ok := r.text(data)
	if !ok {
		return Node{}
	}
	file, err := r.parse(text)
	if err != nil {
		r.syntax(err)
	}
	if file == nil {
		return Node{}
	}
	return r.document(file)
}

// text checks that data is text that can be shown and parsed at all, and
// returns it with its line ends made uniform.
func (r *reader) text(data []byte) (string, bool) {
	if len(data) > MaxBytes {
		r.Fail(Place{}, fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10), r.hints.TooLarge)
		return "", false
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) { // editors write that, too
		r.Fail(Place{}, "the file is UTF-16", "save it as UTF-8")
		return "", false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	r.Source.lines = strings.Split(text, "\n")
	for i, line := range r.Source.lines {
		if column, rest := invalidRune(line); column > 0 {
			r.Fail(Place{Line: i + 1, Column: column, Width: 1}, invalidText(rest), "save the file as UTF-8 text")
			return "", false
		}
	}
	return text, true
}

// invalidRune finds the first character of a line that no text has, and returns
// its column and the line from there on; column 0 if there is none.
func invalidRune(line string) (column int, rest string) {
	column = 1
	for i, c := range line {
		_, size := utf8.DecodeRuneInString(line[i:])
		if c == utf8.RuneError && size == 1 || c != '\t' && unicode.IsControl(c) {
			return column, line[i:]
		}
		column++
	}
	return 0, ""
}

// invalidText says why the first character of text is not allowed.
func invalidText(text string) string {
	c, size := utf8.DecodeRuneInString(text)
	switch {
	case c == utf8.RuneError && size == 1:
		return fmt.Sprintf("byte 0x%02x is not UTF-8", text[0])
	case c == 0:
		return "NUL bytes are not allowed"
	}
	return fmt.Sprintf("control character %U is not allowed", c)
}

// parse calls the YAML parser, unless the file is too large for it: then the
// problem is noted and the file is nil. A file that makes the parser panic is
// refused like any other broken file: what users write must not crash tare.
func (r *reader) parse(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("this is not YAML: %v", p)
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		r.Fail(Place{}, fmt.Sprintf("the file has %d YAML tokens; at most %d are read", len(tokens), maxTokens), "")
		return nil, nil
	}
	if t := deepBracket(tokens); t != nil {
		r.tooDeep(tokenPlace(t))
		return nil, nil
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// deepBracket returns the bracket that nests too deeply, or nil. The parser calls
// itself for each, so they are counted before.
func deepBracket(tokens token.Tokens) *token.Token {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if depth > maxDepth {
			return t
		}
	}
	return nil
}

func (r *reader) tooDeep(at Place) {
	r.Fail(at, fmt.Sprintf("the file is nested deeper than %d levels", maxDepth), "")
}

// syntax notes what the YAML parser complains about.
func (r *reader) syntax(err error) {
	var at Place
	message := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message = e.GetMessage()
		at = tokenPlace(e.GetToken())
		at.Width = 1
	}
	hint := "check the indentation near here, the space after each colon, and that quotes and brackets are closed"
	if line, _ := r.Source.line(at.Line); strings.Contains(indent(line), "\t") {
		message, hint = "YAML cannot be indented with tabs", "use spaces"
		at.Column = strings.IndexByte(line, '\t') + 1
	}
	r.Fail(at, message, hint)
}

// indent returns the white space at the beginning of a line.
func indent(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
