package foreign

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxRows is how many rows a table may have.
const MaxRows = 20_000_000

// maxTable bounds what is read of a table, in bytes.
const maxTable = 2 << 30

// tableHint is what to do about a table that is damaged.
const tableHint = "write the table again, as CSV with a header, and times such as 2026-01-31 12:00:00 (DateStyle ISO)"

// A Row is one row of a table. It is valid until the next one is read.
type Row struct {
	File    string
	Line    int
	columns map[string]int
	fields  []string
}

// Has reports whether the table has a column.
func (r *Row) Has(column string) bool { _, ok := r.columns[column]; return ok }

// Text is the value of the first of the columns that the table has; empty without one.
func (r *Row) Text(columns ...string) string {
	for _, c := range columns {
		if i, ok := r.columns[c]; ok && i < len(r.fields) {
			return strings.TrimSpace(r.fields[i])
		}
	}
	return ""
}

// Number is a number of the first of the columns that the table has; NaN if it is empty.
func (r *Row) Number(columns ...string) (float64, error) {
	text := r.Text(columns...)
	if text == "" {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, r.Errorf("%.40q in column %s is no number", text, columns[0])
	}
	return v, nil
}

// Time is a time without a zone, which counts as UTC; zero if it is empty.
func (r *Row) Time(columns ...string) (time.Time, error) {
	text := r.Text(columns...)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999-07", "2006-01-02 15:04:05.999999999-07:00",
		"2006-01-02T15:04:05.999999999", time.RFC3339Nano, "2006-01-02", "2006/01/02",
	} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, r.Errorf("%.40q in column %s is no time such as 2026-01-31 12:00:00", text, columns[0])
}

// Errorf is an error at the row.
func (r *Row) Errorf(format string, args ...any) error {
	return Errorf(r.File, r.Line, tableHint, format, args...)
}

// Columns returns the names of a table's columns if a file is one: CSV with a header, or a table of
// Markdown; nil if it is none.
func (f *File) Columns() []string {
	begin, err := f.Begins(16 << 10)
	if err != nil {
		return nil
	}
	text := string(begin)
	if i := tableStart(text); i >= 0 {
		line, _, _ := strings.Cut(text[i:], "\n")
		return cells(line)
	}
	line, _, whole := strings.Cut(text, "\n")
	if !whole || !strings.Contains(line, ",") {
		return nil
	}
	columns, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil {
		return nil
	}
	return columns
}

// tableStart finds the first table of Markdown: a line of cells above a line of dashes; -1 = none.
func tableStart(text string) int {
	at := 0
	for line := range strings.Lines(text) {
		below, _, _ := strings.Cut(text[at+len(line):], "\n")
		if strings.HasPrefix(line, "| ") && strings.HasPrefix(below, "| --") {
			return at
		}
		at += len(line)
	}
	return -1
}

// cells are those of a line of Markdown.
func cells(line string) []string {
	all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// Rows calls do for each row of a table, and stops at the first error.
func (f *File) Rows(do func(r *Row) error) error {
	columns := f.Columns()
	row := &Row{File: f.Name, columns: make(map[string]int, len(columns))}
	for i, c := range slices.Backward(columns) { // the first of a name counts
		row.columns[strings.TrimSpace(c)] = i
	}
	begin, err := f.Begins(16 << 10)
	if err != nil {
		return err
	}
	if tableStart(string(begin)) >= 0 {
		return f.markdown(row, len(columns), do)
	}
	return f.csv(row, do)
}

// markdown reads the rows of a table of Markdown, which ends at any other line.
func (f *File) markdown(row *Row, columns int, do func(r *Row) error) error {
	inside := false
	return f.Lines(func(n int, line []byte) error {
		text := string(line)
		switch {
		case strings.HasPrefix(text, "| --"):
			inside = true
			return nil
		case !inside || !strings.HasPrefix(text, "| "):
			inside = false
			return nil
		}
		row.Line, row.fields = n, cells(text)
		if len(row.fields) != columns {
			return row.Errorf("the row has %d columns, and the header %d", len(row.fields), columns)
		}
		return do(row)
	})
}

func (f *File) csv(row *Row, do func(r *Row) error) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	limited := &io.LimitedReader{R: r, N: maxTable}
	in := csv.NewReader(limited)
	in.ReuseRecord = true
	for n := 0; ; n++ {
		fields, err := in.Read()
		var wrong *csv.ParseError
		switch {
		case errors.As(err, &wrong):
			row.Line = wrong.Line
			return row.Errorf("%w", wrong.Err)
		case limited.N <= 0 || n > MaxRows:
			return Errorf(f.Name, 0, "export a part of the table", "the table has more than %d rows, or %d bytes", MaxRows,
				int64(maxTable))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &Error{File: f.Name, Err: err}
		case n == 0: // the header
			continue
		}
		row.fields = fields
		row.Line, _ = in.FieldPos(0)
		if err := do(row); err != nil {
			return err
		}
	}
}
