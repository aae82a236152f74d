package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	reportcsv "github.com/tare-bench/tare/internal/report/csv"
	"github.com/tare-bench/tare/internal/report/gate"
	reportjson "github.com/tare-bench/tare/internal/report/json"
)

// documented returns the fields that the specification has in its tables, by
// section.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/report-format.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]string)
	section := ""
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(name)
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for field := range strings.SplitSeq(cells[1], ",") {
			out[section] = append(out[section], strings.Trim(field, " `"))
		}
	}
	return out
}

// TestFieldsAreDocumented checks that the specification and what is written
// have the same fields.
func TestFieldsAreDocumented(t *testing.T) {
	docs := documented(t)
	d := report.Document{
		Trust: &report.Trust{}, Next: make([]report.Step, 1),
		Runs: make([]report.Run, 1), Groups: make([]report.Group, 1), Reasons: make([]report.Reason, 1),
		Failed: []report.Failure{{Part: "disk"}}, Warned: make([]report.Warning, 1),
		Differences: make([]report.Difference, 1), Spectra: make([]report.Spectrum, 1), Curves: make([]report.Curve, 1),
		Levels: make([]report.Level, 1), TurnCosts: make([]report.TurnCost, 1), Timelines: &report.Timelines{},
	}
	for section, v := range map[string]any{
		"The report": d, "A run": d.Runs[0], "Trials": report.Trials{},
		"A plan":           report.Plan{Slice: 1, Whole: make([]bench.Whole, 1)},
		"What was applied": report.Applied{}, "A group": d.Groups[0], "A metric": report.Metric{},
		"A condition": report.Condition{}, "A level of a condition": report.ConditionLevel{Number: new(float64)},
		"A row": report.Row{InRun: &report.InRun{}, Finding: &report.Finding{}}, "A finding": report.Finding{},
		"Trust": report.Trust{}, "A step": report.Step{}, "A row in its runs": report.InRun{},
		"An effect": report.Effect{Shift: &report.Shift{}}, "A shift": report.Shift{}, "A reason": d.Reasons[0],
		"An explained metric": report.Explained{}, "A failure": d.Failed[0],
		"A spectrum": d.Spectra[0], "A spectrum of a cell": report.SpectrumCell{}, "An interval": report.Interval{},
		"A point of a spectrum": report.SpectrumPoint{}, "A curve": d.Curves[0], "A curve of a cell": report.CurveCell{},
		"Timelines": report.Timelines{}, "A timeline of a cell": report.TimelineCell{},
		"A difference of timelines": report.TimelineDifference{}, "A row of a timeline": report.TimelineRow{},
		"A mean":      report.Mean{},
		"A judgement": gate.Judgement{}, "A check": gate.Check{},
		"A level": d.Levels[0], "A turn's cost": d.TurnCosts[0], "A difference": d.Differences[0], "A warning": d.Warned[0],
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if !slices.Contains(docs[section], name) {
				t.Errorf("section %q does not say what %q is", section, name)
			}
		}
		for _, name := range docs[section] {
			// These sections have a second table, of values.
			if _, ok := fields[name]; !ok && section != "An effect" && section != "A warning" && section != "A finding" {
				t.Errorf("section %q has a field %q that is never written", section, name)
			}
		}
	}
}

// TestCodesAreDocumented checks that every code of a warning or a note is, whichever package has it. What tests
// invent, and what the doctor finds, need not be.
func TestCodesAreDocumented(t *testing.T) {
	docs, found := documented(t)["A warning"], 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		invented := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
		if err != nil || filepath.Ext(path) != ".go" || invented {
			return err
		}
		for _, code := range codes(t, path) {
			if found++; !slices.Contains(docs, code) {
				t.Errorf("%s: the code %q is not documented", path, code)
			}
		}
		return nil
	})
	if err != nil || found < 60 {
		t.Errorf("only %d codes found: %v", found, err)
	}
}

// codes returns those of a file: its constants with names that begin with Code or Note, and what it gives to fields
// with the name Code. Codes are words; those of PostgreSQL's errors are not.
func codes(t *testing.T, name string) (all []string) {
	t.Helper()
	names, words := regexp.MustCompile(`^(Code|Note)[A-Z]`), regexp.MustCompile(`^"[a-z]+(-[a-z]+)*"$`)
	add := func(e ast.Expr) {
		if text, ok := e.(*ast.BasicLit); ok && words.MatchString(text.Value) {
			all = append(all, strings.Trim(text.Value, `"`))
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, v := range n.Values {
				if names.MatchString(n.Names[i].Name) {
					add(v)
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
				add(n.Value)
			}
		}
		return true
	})
	return all
}

// TestClaimsNeedTheirLevel checks that whoever reads a p-value finds beside it what it is compared with: of a run that
// was extended that is less than 5 %.
func TestClaimsNeedTheirLevel(t *testing.T) {
	levels := map[float64]bool{}
	for _, s := range states() {
		d := s.document(t)
		for _, m := range d.Metrics {
			for _, c := range m.Conditions {
				for _, r := range c.Rows {
					e := r.Effect
					if e == nil || e.Adjusted == nil {
						continue
					}
					levels[e.Alpha] = true
					claims := slices.Contains([]string{"worse", "better", "different"}, e.Verdict)
					if e.Alpha <= 0 || e.Alpha > 0.05 || claims && *e.Adjusted >= e.Alpha {
						t.Errorf("%s: %s of %s: p %v, compared with %v: %s",
							s.name, m.Name, r.Cell, *e.Adjusted, e.Alpha, e.Verdict)
					}
				}
			}
		}
	}
	for _, want := range []float64{bench.LookLevel(1), bench.LookLevel(3), 0.05} {
		if !levels[want] {
			t.Errorf("nothing is compared with %v", want)
		}
	}
}

// TestCSVIsRead checks that the CSV has one row for each that the JSON has,
// and that no text can be a formula.
func TestCSVIsRead(t *testing.T) {
	for _, s := range states() {
		d := s.document(t)
		var b bytes.Buffer
		if err := reportcsv.Write(&b, d); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		want := 1
		for _, m := range d.Metrics {
			for _, c := range m.Conditions {
				want += len(c.Rows)
			}
			if m.Summary != nil {
				want += len(m.Summary.Rows)
			}
		}
		if len(rows) != want {
			t.Errorf("%s: %d rows, want %d", s.name, len(rows), want)
		}
		for _, row := range rows {
			for _, field := range row {
				if _, err := strconv.ParseFloat(field, 64); err != nil && field != "" &&
					strings.ContainsRune("=+-@\t\r", rune(field[0])) {
					t.Errorf("%s: %q would be a formula", s.name, field)
				}
			}
		}
	}
}

// TestNoNumberIsLost checks that the JSON has every number of the first screen: the findings as
// they are shown, with what they are made of, and those of the title, the remarks and of trust. The steps are there
// as they are.
func TestNoNumberIsLost(t *testing.T) {
	number := regexp.MustCompile(`[0-9]+([.,][0-9]+)*`)
	for _, s := range states() {
		if strings.HasSuffix(s.name, "hostile") {
			continue // it has numbers only in escaped texts
		}
		d := s.document(t)
		var b bytes.Buffer
		if err := reportjson.Write(&b, d); err != nil {
			t.Fatal(err)
		}
		var content any
		if err := json.Unmarshal(b.Bytes(), &content); err != nil {
			t.Fatal(err)
		}
		delete(content.(map[string]any), "next") // no number of it is anywhere else
		texts, numbers := map[string]bool{}, map[string]bool{}
		leaves(content, texts, numbers)
		for _, e := range d.Runs[0].Engines {
			if e.Away != nil { // the JSON has nanoseconds, people read milliseconds
				numbers[fmt.Sprint(float64(e.Away.RoundTrip)/1e6)] = true
			}
		}
		numbers[fmt.Sprint(len(d.Warned)-1)] = true // their list is there, and one of them is the reason
		for _, g := range d.Groups {
			numbers[fmt.Sprint(len(g.Runs))] = true // their list is there, too
		}
		for _, table := range d.Screen.Tables {
			for _, g := range table.Groups {
				for _, row := range g.Lines {
					for _, cell := range row.Cells[1:] {
						if cell != "" && !texts[cell] {
							t.Errorf("%s: no finding of the JSON is %q", s.name, cell)
						}
					}
				}
			}
		}
		for text := range texts {
			for _, n := range number.FindAllString(text, -1) {
				numbers[strings.ReplaceAll(n, ",", "")] = true
			}
		}
		said := append(slices.Concat(d.Screen.Sides...), d.Screen.Title, d.Screen.Trust)
		said = append(said, d.Screen.Remarks...)
		for _, text := range said {
			for _, n := range number.FindAllString(text, -1) {
				if !numbers[strings.ReplaceAll(n, ",", "")] {
					t.Errorf("%s: the JSON lacks the %s of %q", s.name, n, text)
				}
			}
		}
	}
	d := states()[0].document(t)
	var b bytes.Buffer
	if err := reportjson.Write(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Metrics[0].Conditions[0].Rows {
		if want := fmt.Sprintf(`"median": %v`, *r.Median); !strings.Contains(b.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// leaves collects the texts and the numbers of a JSON value.
func leaves(v any, texts, numbers map[string]bool) {
	switch v := v.(type) {
	case string:
		texts[v] = true
	case float64:
		numbers[fmt.Sprint(v)] = true
	case []any:
		for _, x := range v {
			leaves(x, texts, numbers)
		}
	case map[string]any:
		for _, x := range v {
			leaves(x, texts, numbers)
		}
	}
}
