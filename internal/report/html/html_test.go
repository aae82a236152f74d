package html_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	nethtml "golang.org/x/net/html"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/figure"
	"github.com/tare-bench/tare/internal/report/html"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/text/unit"
)

// document analyses a run.
func document(t testing.TB, run *bench.Run) *report.Document {
	t.Helper()
	r, err := analysis.Analyze(run, analysis.Options{Singles: true})
	if err != nil {
		t.Fatal(err)
	}
	return report.New(r, nil)
}

func cells(n int) (all []analysistest.Cell) {
	for i := range n {
		all = append(all, analysistest.Cell{Name: "cell" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), Factor: 1 + float64(i%7)/10})
	}
	return all
}

// survey has as many cells, metrics and blocks as a long run of many engines.
func survey(n, metrics, blocks int) *bench.Run {
	primary := slices.Clone(analysistest.Lifecycle()[:metrics])
	for i := range primary {
		primary[i].Role = bench.Primary
	}
	return analysistest.Run(analysistest.Shape{
		Seed: 7, Blocks: blocks, Cells: cells(n), Metrics: primary,
		Noise: func(r *rand.Rand) float64 { return 0.05 * r.NormFloat64() },
	})
}

func write(t testing.TB, d *report.Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := html.Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnitIsExplained checks that a page says what its changes are of.
func TestUnitIsExplained(t *testing.T) {
	other := survey(2, 1, 8)
	other.Header.ID += "b"
	c, err := analysis.Compare([]*bench.Run{survey(2, 1, 8), other}, analysis.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	compared := report.NewComparison(c, nil)
	for unit, want := range map[analysis.Unit]string{
		analysis.UnitRun:   "what the runs of two groups differ by",
		analysis.UnitHost:  "what the hosts of two groups differ by",
		analysis.UnitBlock: "what two hosts differ by in blocks that they measured at the same time",
	} {
		compared.Unit = string(unit)
		if page := string(write(t, compared)); !strings.Contains(page, want) || !strings.Contains(page, "of one "+string(unit)+".") {
			t.Errorf("the page of a comparison of %ss does not say %q", unit, want)
		}
	}
	if page := string(write(t, document(t, survey(2, 1, 8)))); !strings.Contains(page, "differ by within a block") {
		t.Error("the page of a run does not say what a change is")
	}
}

// TestSameTitles checks that each of two metrics with one title has its own table.
func TestSameTitles(t *testing.T) {
	run := survey(2, 2, 8)
	for i := range run.Header.Metrics {
		run.Header.Metrics[i].Title = "time"
	}
	d := document(t, run)
	sections := strings.Split(string(write(t, d)), `<section id="q`)[1:]
	if len(sections) != 2 {
		t.Fatalf("%d questions, want 2", len(sections))
	}
	for i, section := range sections {
		_, table, _ := strings.Cut(section, "<table>")
		table, _, _ = strings.Cut(table, "</table>")
		if want := unit.Format(*d.Metrics[i].Conditions[0].Rows[0].Median, d.Metrics[i].Unit); !strings.Contains(table, want) {
			t.Errorf("the table of question %d lacks its median %s:\n%s", i+1, want, table)
		}
	}
}

// TestForeignPage checks that a page of what another program has measured promises no plan, and says how it
// was measured.
func TestForeignPage(t *testing.T) {
	run := survey(1, 1, 8)
	run.Header.Imported = true
	run.Header.MeasuredBy, run.Header.Warnings = "pgbench", []bench.Warning{{Code: analysis.CodeNotApart, Text: "not interleaved"}}
	page := string(write(t, document(t, run)))
	for _, wrong := range []string{"measure this again", "random order", "tare run"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page says %q", wrong)
		}
	}
	if !strings.Contains(page, "Another program measured this") {
		t.Error("the page does not say who has measured")
	}
}

// TestPageAsksForNothing checks that a page has no script, no handler and no reference to
// anything outside of it.
func TestPageAsksForNothing(t *testing.T) {
	checkHarmless(t, write(t, document(t, survey(4, 3, 20))))
}

// checkHarmless reads a page as a browser would.
func checkHarmless(t testing.TB, page []byte) {
	t.Helper()
	ids := map[string]bool{}
	tokens := nethtml.NewTokenizer(bytes.NewReader(page))
	for {
		switch tokens.Next() {
		case nethtml.ErrorToken:
			if !errors.Is(tokens.Err(), io.EOF) {
				t.Fatal(tokens.Err())
			}
			return
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			tag := tokens.Token()
			switch tag.Data {
			case "script", "iframe", "object", "embed", "link", "img", "base", "form", "image", "use", "foreignobject":
				t.Errorf("the page has a <%s>", tag.Data)
			}
			for _, a := range tag.Attr {
				switch key := strings.ToLower(a.Key); {
				case key == "id" && ids[a.Val]:
					t.Errorf("two elements have the id %q", a.Val)
				case key == "id":
					ids[a.Val] = true
				case key == "href" && !strings.HasPrefix(a.Val, "#note"), key == "src", key == "style",
					strings.HasPrefix(key, "on"), strings.HasSuffix(key, ":href"):
					t.Errorf("<%s %s=%q>", tag.Data, key, a.Val)
				}
			}
		}
	}
}

// TestFiguresAreXML checks that each figure is a well-formed file that says what it shows.
func TestFiguresAreXML(t *testing.T) {
	all := figure.All(document(t, survey(4, 3, 20)))
	if len(all) == 0 {
		t.Fatal("no figures")
	}
	for _, f := range all {
		svg := f.SVG()
		dec := xml.NewDecoder(strings.NewReader(svg))
		titles := 0
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "title" || e.Name.Local == "desc") {
				titles++
			}
		}
		if want := 2 * (1 + len(f.Panels)); titles != want {
			t.Errorf("%s has %d titles and descriptions, want %d", f.Name, titles, want)
		}
	}
}

// TestPageIsSmall checks the limits that docs/performance.md names.
func TestPageIsSmall(t *testing.T) {
	n := len(write(t, document(t, survey(8, 6, 150))))
	t.Logf("8 cells, 6 metrics and 150 blocks take %d bytes", n)
	if n > 400_000 {
		t.Error("that is too many")
	}
	page := write(t, document(t, survey(200, 6, 150)))
	t.Logf("200 cells, 6 metrics and 150 blocks take %d bytes", len(page))
	if len(page) > 3_000_000 || !bytes.Contains(page, []byte("left out, so that the page stays small")) {
		t.Error("that is too many, or the page does not say that figures are left out")
	}
	if testing.Short() {
		return
	}
	for _, run := range []*bench.Run{survey(1000, 2, 12), survey(1000, 6, 150)} {
		page := write(t, document(t, run))
		t.Logf("1,000 cells and %d metrics take %d bytes", len(run.Header.Metrics), len(page))
		if len(page) > 3_000_000 {
			t.Error("that is too many")
		}
		if !bytes.Contains(page, []byte("Not everything is drawn, but 60 of 1,000 cells (the baseline")) {
			t.Error("the page does not say that it draws less than everything")
		}
		checkLeftOut(t, string(page), "800 of 1,000 rows")
	}
}

// TestManyRows checks that the tables of a page have at most 200 rows, those that differ most and the baseline, and say
// where the others are.
func TestManyRows(t *testing.T) {
	page := string(write(t, document(t, survey(250, 1, 6))))
	checkLeftOut(t, page, "50 of 250 rows")
	first, _, _ := strings.Cut(page, "</table>")
	_, table, _ := strings.Cut(page, `<section id="q1">`)
	table, _, _ = strings.Cut(table, "</table>")
	for _, table := range []string{first, table} {
		if n := strings.Count(table, `<th scope="row">`); n != 200 {
			t.Errorf("%d rows, want 200", n)
		}
		for name, want := range map[string]bool{"cella": true, "cellg": true, "cellexxxxxxxxx": false} { // baseline, 1.6, 1
			if got := strings.Contains(table, `<th scope="row"><bdi>`+name+"</bdi>"); got != want {
				t.Errorf("%s is there: %v, want %v", name, got, want)
			}
		}
	}
}

// checkLeftOut wants both tables of a metric, on the first screen and with its question, to say what they leave out.
func checkLeftOut(t *testing.T, page, rows string) {
	t.Helper()
	said := "Left out, because they differ least from the baseline: " + rows + "; tare show RUN --all and --json have all."
	if n := strings.Count(page, said); n < 2 {
		t.Errorf("the page says %d times %q", n, said)
	}
}

// TestTimelineOnPage checks that a page says where the time goes: in its question, with a picture whose texts can be
// read, and all numbers in a table.
func TestTimelineOnPage(t *testing.T) {
	run := survey(2, 2, 8)
	d := document(t, run)
	d.AddTimelines(report.NewTimelines(&run.Header.Plan, analysistest.ForeignTimelines("dockerd"), nil))
	d.Timelines.Differences = []report.TimelineDifference{{Cell: "cellb", Base: "cella", Rows: []report.TimelineRow{
		{Role: "shim", Kind: "on CPU", Mean: report.Mean{Value: 0.02}},
	}}}
	page := string(write(t, d))
	checkHarmless(t, []byte(page))
	question, _, _ := strings.Cut(page[strings.Index(page, `<section id="q1">`):], `<section id="q2">`)
	for _, want := range []string{
		"cellb − cella", "<bdi>shim</bdi>", ">dockerdx</text>", "where the time of one trial went</title>", "Most of it: ",
		"the numbers</summary>",
	} {
		if !strings.Contains(question, want) {
			t.Errorf("the question lacks %q", want)
		}
	}
	var shown bytes.Buffer
	if err := html.WriteFigure(&shown, d, "first_instruction-timeline"); err != nil {
		t.Fatal(err, html.Figures(d))
	}
	d.Timelines.Differences = slices.Repeat(d.Timelines.Differences, 30)
	if many := string(write(t, d)); !strings.Contains(many, "Left out: 6 of 30 timelines; tare show RUN --timeline CELL") {
		t.Error("a page with the timelines of 30 cells does not say that some are left out")
	}
	if err := xml.Unmarshal(shown.Bytes(), new(struct{ XMLName xml.Name })); err != nil {
		t.Error(err)
	}
}

// TestForeignIsDrawn checks that the run of foreign texts, which fuzzers write, reaches everything that a page has.
func TestForeignIsDrawn(t *testing.T) {
	run := analysistest.Foreign("foreign")
	d := document(t, run)
	d.AddTimelines(report.NewTimelines(&run.Header.Plan, analysistest.ForeignTimelines("foreign"), nil))
	var kinds []figure.Kind
	for _, f := range figure.All(d) {
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	if len(kinds) != 6 {
		t.Errorf("only pictures of the kinds %q", kinds)
	}
	for name, lines := range map[string]int{
		"applied": len(d.View.Applied), "paths": len(d.View.DataPaths), "failures": len(d.View.Failures),
		"notes": len(d.View.Written), "machine": len(d.View.Machine), "plan": len(d.View.Plan),
	} {
		if lines == 0 {
			t.Errorf("nothing is said of %s", name)
		}
	}
	if page := string(write(t, d)); !strings.Contains(page, "the deeper the colour, the larger the difference") {
		t.Error("the page has no map of findings")
	}
}

// FuzzPage writes pages whose every name is foreign text.
func FuzzPage(f *testing.F) {
	for _, s := range []string{
		"docker", `</title><script>alert(1)</script>`, `"><svg onload=x>`, "\u202eevil\u2066", "a\x00b\nc", "]]>", "&amp;",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		run := analysistest.Foreign(s)
		if record.ValidateHeader(&run.Header) != nil {
			t.Skip()
		}
		d := document(t, run)
		d.AddTimelines(report.NewTimelines(&run.Header.Plan, analysistest.ForeignTimelines(s), nil))
		page := write(t, d)
		checkHarmless(t, page)
		for _, one := range figure.All(d) {
			if err := xml.Unmarshal([]byte(one.SVG()), new(struct{ XMLName xml.Name })); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkPage writes the page of a long run of many engines.
func BenchmarkPage(b *testing.B) {
	d := document(b, survey(8, 6, 150))
	for b.Loop() {
		if err := html.Write(io.Discard, d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargePage writes the page of 1,000 cells.
func BenchmarkLargePage(b *testing.B) {
	d := document(b, survey(1000, 6, 150))
	for b.Loop() {
		if err := html.Write(io.Discard, d); err != nil {
			b.Fatal(err)
		}
	}
}
