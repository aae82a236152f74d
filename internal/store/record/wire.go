package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/bench"
)

// kind is the value of "tare" in a header line, which identifies a stream.
const kind = "record"

// A headerLine is the first line of a run.
type headerLine struct {
	Tare    string `json:"tare"`
	Version int    `json:"version"`
	bench.Header
}

// A line is any other line, or the part of a header line that identifies it. A line without any of
// these keys is of a kind that a later version added.
type line struct {
	Tare    *string         `json:"tare,omitempty"`
	Version int             `json:"version,omitempty"`
	Sample  json.RawMessage `json:"sample,omitempty"`
	Resumed json.RawMessage `json:"resumed,omitempty"`
	End     json.RawMessage `json:"end,omitempty"`
}

// kinds returns how many of the known kinds the line is.
func (l line) kinds() int {
	n := 0
	for _, is := range []bool{l.Tare != nil, l.Sample != nil, l.Resumed != nil, l.End != nil} {
		if is {
			n++
		}
	}
	return n
}

// A sample is bench.Sample as it is written. Pointers distinguish 0 from missing.
type sample struct {
	Seq       *int            `json:"seq"`
	Block     *int            `json:"block"`
	Cell      *int            `json:"cell"`
	Began     time.Time       `json:"began,omitzero"`
	Elapsed   time.Duration   `json:"elapsed_ns"`
	Counted   time.Duration   `json:"counted_ns,omitempty"`
	Outcome   bench.Outcome   `json:"outcome"`
	Operation string          `json:"operation,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Values    json.RawMessage `json:"values,omitempty"`
	Series    []series        `json:"series,omitempty"`

	Distributions []bench.Distribution `json:"distributions,omitempty"`
	Trace         *bench.Trace         `json:"trace,omitempty"`

	Applied *bench.Applied `json:"applied,omitempty"`
	Notes   []string       `json:"notes,omitempty"`

	Parts []bench.PartOutcome `json:"parts,omitempty"`
}

// encodeSample returns the written form of s.
func encodeSample(s *bench.Sample, m metrics) sample {
	w := sample{
		Seq: &s.Trial.Seq, Block: &s.Trial.Block, Cell: &s.Trial.Cell,
		Began: s.Began.UTC(), Elapsed: s.Elapsed, Counted: s.Counted, Outcome: s.Outcome, Operation: s.Operation,
		Reason: s.Reason, Applied: s.Applied, Notes: s.Notes, Parts: s.Parts, Distributions: s.Distributions, Trace: s.Trace,
	}
	if s.Outcome == bench.OK {
		w.Values = m.encode(s.Values)
	}
	for _, one := range s.Series {
		w.Series = append(w.Series, series{one.Metric, one.Values})
	}
	return w
}

// decodeSample reads what encodeSample has written.
func decodeSample(text []byte, m metrics) (*bench.Sample, error) {
	var w sample
	if err := decode(text, &w); err != nil {
		return nil, err
	}
	if w.Seq == nil || w.Block == nil || w.Cell == nil {
		return nil, errors.New(`a sample needs "seq", "block" and "cell"`)
	}
	s := &bench.Sample{
		Trial: bench.Trial{Seq: *w.Seq, Block: *w.Block, Cell: *w.Cell},
		Began: w.Began, Elapsed: w.Elapsed, Counted: w.Counted, Outcome: w.Outcome, Operation: w.Operation,
		Reason: w.Reason, Applied: w.Applied, Notes: w.Notes, Parts: w.Parts, Distributions: w.Distributions, Trace: w.Trace,
	}
	Upgrade(s)
	for _, one := range w.Series {
		s.Series = append(s.Series, bench.Series{Metric: one.Metric, Values: one.Values})
	}
	if w.Values == nil {
		return s, nil
	}
	var err error
	s.Values, err = m.decode(w.Values)
	return s, err
}

// metrics translates values between their order in a sample and their names.
type metrics struct {
	quoted [][]byte // names as JSON, with the colon
	index  map[string]int
}

func newMetrics(list []bench.Metric) (metrics, error) {
	m := metrics{index: make(map[string]int, len(list))}
	for i, metric := range list {
		name, err := json.Marshal(metric.Name)
		if err != nil {
			return m, err
		}
		m.quoted = append(m.quoted, append(name, ':'))
		m.index[metric.Name] = i
	}
	return m, nil
}

// encode writes values as an object. It omits NaN, which means no value. It writes infinities as
// strings, because JSON has none.
func (m metrics) encode(values []float64) json.RawMessage {
	b := []byte{'{'}
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, m.quoted[i]...)
		if math.IsInf(v, 0) {
			b = strconv.AppendQuote(b, strconv.FormatFloat(v, 'g', -1, 64))
		} else {
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
		}
	}
	return append(b, '}')
}

// decode reads what encode has written. It parses the object itself, because a map would hide
// duplicate names, and encoding/json would take most of an import's time. The text is valid JSON,
// as part of a line.
func (m metrics) decode(text []byte) ([]float64, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New(`"values" is not an object`)
	}
	values := make([]float64, len(m.index))
	for i := range values {
		values[i] = math.NaN()
	}
	for rest := skipSpace(text[1:]); rest[0] != '}'; {
		key, behind := token(rest)
		name, err := unquote(key)
		if err != nil {
			return nil, err
		}
		i, ok := m.index[string(name)]
		if !ok {
			return nil, fmt.Errorf("it has a value of %.80q, which the header does not declare", name)
		}
		value, behind := token(skipSpace(skipSpace(behind)[1:])) // after the colon
		v, err := number(value)
		if err != nil {
			return nil, fmt.Errorf("value of %q: %w", name, err)
		}
		if !math.IsNaN(values[i]) {
			return nil, fmt.Errorf("it has two values of %q", name)
		}
		values[i] = v
		if rest = skipSpace(behind); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return values, nil
}

// skipSpace returns valid JSON from its next token on.
func skipSpace(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n') {
		text = text[1:]
	}
	return text
}

// token splits valid JSON after the string, number or word at its beginning. For a list or an
// object it returns the first byte.
func token(text []byte) (first, rest []byte) {
	n := 1
	switch text[0] {
	case '{', '[':
	case '"':
		for ; text[n] != '"'; n++ {
			if text[n] == '\\' {
				n++
			}
		}
		n++
	default:
		for n < len(text) && strings.IndexByte(",:]} \t\r\n", text[n]) < 0 {
			n++
		}
	}
	return text[:n], text[n:]
}

// unquote is the text of a JSON string. It is valid until the input changes.
func unquote(text []byte) ([]byte, error) {
	if inner := text[1 : len(text)-1]; !bytes.ContainsRune(inner, '\\') && utf8.Valid(inner) {
		return inner, nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return []byte(s), err
}

// A series is bench.Series as it is written.
type series struct {
	Metric string  `json:"metric"`
	Values numbers `json:"values"`
}

// numbers is a list in which null is not allowed.
type numbers []float64

// UnmarshalJSON reads a list of numbers.
func (n *numbers) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '[' {
		return errors.New(`"values" of a series is not an array`)
	}
	*n = nil
	for rest := skipSpace(text[1:]); rest[0] != ']'; {
		value, behind := token(rest)
		v, err := number(value)
		if err != nil {
			return fmt.Errorf("value %d of a series: %w", len(*n), err)
		}
		*n = append(*n, v)
		if rest = skipSpace(behind); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return nil
}

// number reads one value.
func number(text []byte) (float64, error) {
	switch c := text[0]; {
	case c == '-' || '0' <= c && c <= '9':
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return 0, fmt.Errorf("number %.80s is out of range", text)
		}
		return v, nil
	case c == '"':
		s, err := unquote(text)
		switch {
		case err != nil:
			return 0, err
		case string(s) == "+Inf":
			return math.Inf(1), nil
		case string(s) == "-Inf":
			return math.Inf(-1), nil
		}
	}
	return 0, errors.New("not a number")
}

// decode is json.Unmarshal with errors about the format instead of Go types.
func decode(text []byte, to any) error { return formatError(json.Unmarshal(text, to)) }

// formatError rewrites an error of encoding/json in the terms of the format.
func formatError(err error) error {
	var typeError *json.UnmarshalTypeError
	var syntaxError *json.SyntaxError
	switch {
	case errors.As(err, &typeError) && typeError.Field != "":
		// Users do not see that the header is embedded in its line's type.
		return fmt.Errorf("%q cannot be a %s", strings.TrimPrefix(typeError.Field, "Header."), typeError.Value)
	case errors.As(err, &typeError):
		return fmt.Errorf("%s is not allowed here", typeError.Value)
	case errors.As(err, &syntaxError):
		return fmt.Errorf("not JSON: %w (at byte %d)", err, syntaxError.Offset)
	}
	return err
}
