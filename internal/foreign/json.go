package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// MaxDocuments is how many documents of JSON a file may have.
const MaxDocuments = 10_000

// A Document is one object of JSON in a file.
type Document struct {
	File string
	Line int // where it begins
	hint string
	text []byte
}

// Documents finds the objects of JSON in a file, in their order. Each begins on a line of its own.
// Other lines are skipped, because programs print messages before and after their results. The hint
// says what to do about a file that is damaged.
func (f *File) Documents(hint string) ([]Document, error) {
	text, err := f.Whole()
	if err != nil {
		return nil, err
	}
	var all []Document
	for line := 1; ; {
		before := beginning(text)
		if before < 0 {
			return all, nil
		}
		line, text = line+bytes.Count(text[:before], []byte("\n")), text[before:]
		d := Document{File: f.Name, Line: line, hint: hint}
		end, err := d.cut(text)
		if err != nil {
			return nil, err
		}
		if all = append(all, d); len(all) > MaxDocuments {
			return nil, Errorf(f.Name, line, "import a part of it at a time", "it has more than %d documents", MaxDocuments)
		}
		line, text = line+bytes.Count(text[:end], []byte("\n")), text[end:]
	}
}

// cut takes the document at the beginning of a text, and returns where it ends.
func (d *Document) cut(text []byte) (end int64, err error) {
	in := json.NewDecoder(bytes.NewReader(text))
	var raw json.RawMessage
	if err := in.Decode(&raw); err != nil {
		return 0, d.wrong(text, err)
	}
	d.text = raw
	return in.InputOffset(), nil
}

// beginning is where the first line begins that begins with a brace; -1 = nowhere.
func beginning(text []byte) int {
	for at := 0; at < len(text); {
		line, _, _ := bytes.Cut(text[at:], []byte("\n"))
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("{")) {
			return at
		}
		at += len(line) + 1
	}
	return -1
}

// Read reads the document into a value, as json.Unmarshal does. The error names the line.
func (d *Document) Read(into any) error {
	if err := json.Unmarshal(d.text, into); err != nil {
		return d.wrong(d.text, err)
	}
	return nil
}

// Errorf is an error at the document.
func (d *Document) Errorf(format string, args ...any) error {
	return Errorf(d.File, d.Line, d.hint, format, args...)
}

// wrong puts an error of encoding/json about a text into words, with its line.
func (d *Document) wrong(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	at := int64(0)
	switch {
	case errors.As(err, &syntax):
		at, err = syntax.Offset, fmt.Errorf("its JSON is damaged: %w", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(text)), errors.New("its JSON ends too early")
	case errors.As(err, &kind):
		at, err = kind.Offset, fmt.Errorf("%.80q is %.40s, and must be %s", kind.Field, kind.Value, wanted(kind.Type))
	}
	at = min(max(at, 0), int64(len(text)))
	return &Error{File: d.File, Line: d.Line + bytes.Count(text[:at], []byte("\n")), Err: err, Hint: d.hint}
}

// wanted is what JSON has for a type.
func wanted(t reflect.Type) string {
	switch k := t.Kind(); k {
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Bool:
		return "a bool"
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Float64:
		return "a number"
	default:
		return "a whole number of up to 18 digits"
	}
}
