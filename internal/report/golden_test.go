package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/report"
	reportcsv "github.com/tare-bench/tare/internal/report/csv"
	"github.com/tare-bench/tare/internal/report/figure"
	"github.com/tare-bench/tare/internal/report/html"
	reportjson "github.com/tare-bench/tare/internal/report/json"
	"github.com/tare-bench/tare/internal/report/markdown"
	"github.com/tare-bench/tare/internal/report/text"
)

// A rendering is one file of the book of all states in testdata.
type rendering struct {
	file   string
	write  func(w io.Writer, d *report.Document) error
	always bool // also for states that are huge
}

func renderings() []rendering {
	plain := func(width int, color, all bool) func(io.Writer, *report.Document) error {
		return func(w io.Writer, d *report.Document) error {
			return text.Write(w, d, text.Options{Width: width, Color: color, All: all})
		}
	}
	return []rendering{
		{"40.txt", plain(40, false, false), false},
		{"80.txt", plain(80, false, false), true},
		{"120.txt", plain(120, false, false), true},
		{"80-color.txt", plain(80, true, false), false},
		{"all-80.txt", plain(80, false, true), true},
		{"all-120.txt", plain(120, false, true), false},
		{"all-80-color.txt", plain(80, true, true), false},
		{"plot-80.txt", func(w io.Writer, d *report.Document) error { return figure.Write(w, d, 80) }, false},
		{"report.json", reportjson.Write, false},
		{"report.csv", reportcsv.Write, false},
		{"report.md", markdown.Write, false},
		{"report.html", html.Write, true}, // also pages that do not have everything
	}
}

// TestGolden compares every state in every form with what is in testdata;
// -update writes it, as a book to look through.
func TestGolden(t *testing.T) {
	for _, s := range states() {
		t.Run(s.name, func(t *testing.T) {
			d := s.document(t)
			for _, r := range renderings() {
				if s.huge && !r.always {
					continue
				}
				var b bytes.Buffer
				if err := r.write(&b, d); err != nil {
					t.Fatal(err)
				}
				compare(t, filepath.Join("testdata", s.name, r.file), b.Bytes())
			}
		})
	}
}

// compare compares with a golden file.
func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", path, d)
	}
}

var _ = flag.Bool("update", false, "write the golden files")

// TestSameBytes checks that a document renders to the same bytes twice.
func TestSameBytes(t *testing.T) {
	for _, s := range states() {
		for _, r := range renderings() {
			var a, b bytes.Buffer
			if err := r.write(&a, s.document(t)); err != nil {
				t.Fatal(err)
			}
			if err := r.write(&b, s.document(t)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s %s differs from one time to the next", s.name, r.file)
			}
		}
	}
}

// TestHarmless checks that nothing from a stored run reaches a terminal that
// could move its cursor, whatever the form.
func TestHarmless(t *testing.T) {
	for _, s := range states() {
		d := s.document(t)
		for _, r := range renderings() {
			if strings.HasSuffix(r.file, "80-color.txt") {
				continue // its escapes are checked by the golden file
			}
			var b bytes.Buffer
			if err := r.write(&b, d); err != nil {
				t.Fatal(err)
			}
			if !utf8.Valid(b.Bytes()) {
				t.Errorf("%s %s is not UTF-8", s.name, r.file)
			}
			for _, c := range b.String() {
				allowed := c == '\n' || c == '\r' && r.file == "report.csv"
				if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !allowed {
					t.Errorf("%s %s has the character %U", s.name, r.file, c)
				}
			}
		}
	}
}

// TestFits checks that no line of text is wider than the terminal.
func TestFits(t *testing.T) {
	for _, s := range states() {
		d := s.document(t)
		for _, width := range []int{-40, -80, -120, 80, 100, 120, 200} { // negative: the first screen alone
			var b bytes.Buffer
			if err := text.Write(&b, d, text.Options{Width: max(width, -width), All: width > 0}); err != nil {
				t.Fatal(err)
			}
			checkWidth(t, s.name, b.Bytes(), max(width, -width))
		}
		for _, width := range []int{40, 80, 120} {
			var b bytes.Buffer
			if err := figure.Write(&b, d, width); err != nil {
				t.Fatal(err)
			}
			checkWidth(t, s.name+", as a plot", b.Bytes(), width)
		}
	}
}

// TestMarksFit checks that no row is wider than the terminal for the marks at its end.
func TestMarksFit(t *testing.T) {
	all := states()
	d := all[slices.IndexFunc(all, func(s state) bool { return s.name == "quick" })].document(t)
	for _, table := range d.Tables {
		for _, g := range table.Groups {
			for i := range g.Lines {
				g.Lines[i].Marks = []int{1, 2}
			}
		}
	}
	for width := 60; width <= 130; width++ {
		var b bytes.Buffer
		if err := text.Write(&b, d, text.Options{Width: width, All: true}); err != nil {
			t.Fatal(err)
		}
		checkWidth(t, fmt.Sprint(width), b.Bytes(), width)
	}
}

func checkWidth(t *testing.T, name string, text []byte, width int) {
	t.Helper()
	for line := range bytes.Lines(text) {
		// The only characters here that are two columns wide are Han.
		wide := 0
		for _, c := range string(line) {
			if unicode.Is(unicode.Han, c) {
				wide++
			}
		}
		if n := utf8.RuneCount(line) - 1 + wide; n > width {
			t.Errorf("%s at %d columns: %d columns in %q", name, width, n, line)
		}
	}
}

// TestOneScreen checks that the default run with four cells fits a terminal of 80 columns and 24
// lines, and that no report advises more than two commands.
func TestOneScreen(t *testing.T) {
	for _, s := range states() {
		d := s.document(t)
		if len(d.Next) > 2 {
			t.Errorf("%s advises %d commands: %+v", s.name, len(d.Next), d.Next)
		}
		if s.name != "quick" {
			continue
		}
		var b bytes.Buffer
		if err := text.Write(&b, d, text.Options{Width: 80}); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b.Bytes(), []byte("\n")); n >= 24 { // one is the prompt's
			t.Errorf("%d lines:\n%s", n, b.String())
		}
	}
}

// TestUnitsStay checks that no finding is folded between a number and its unit.
func TestUnitsStay(t *testing.T) {
	apart := regexp.MustCompile(`(?m)^ .* (%|ms|µs|s|KiB|MiB|GiB/s|k/s|/s)( |$)`)
	number := regexp.MustCompile(`[0-9]( (%|ms|µs|s|KiB|MiB|GiB/s|k/s|/s))`)
	for _, s := range states() {
		if s.name == "compared-hostile" {
			continue // its names leave no room for a number
		}
		for width := 40; width <= 80; width += 5 {
			var b bytes.Buffer
			if err := text.WriteFindings(&b, s.document(t), text.Options{Width: width}); err != nil {
				t.Fatal(err)
			}
			if line := apart.FindString(number.ReplaceAllString(b.String(), "0")); line != "" {
				t.Errorf("%s at %d columns: a unit without its number in %q", s.name, width, line)
			}
		}
	}
}

// TestJSONIsRead checks that the JSON reads back as the same document.
func TestJSONIsRead(t *testing.T) {
	for _, s := range states() {
		if strings.HasSuffix(s.name, "hostile") {
			continue // what is not UTF-8 cannot come back
		}
		d := s.document(t)
		var b bytes.Buffer
		if err := reportjson.Write(&b, d); err != nil {
			t.Fatal(err)
		}
		first := b.String()
		var back report.Document
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		b.Reset()
		if err := reportjson.Write(&b, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, b.String()); d != "" {
			t.Errorf("%s: %s", s.name, d)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestWriteErrors checks that no renderer hides that its writer failed.
func TestWriteErrors(t *testing.T) {
	d := states()[0].document(t)
	for _, r := range renderings() {
		if err := r.write(broken{}, d); err == nil {
			t.Errorf("%s: no error from a writer that fails", r.file)
		}
	}
}
