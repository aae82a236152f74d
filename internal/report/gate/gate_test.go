package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// judged is a run whose cell "new" takes a factor of the baseline's time.
func judged(t testing.TB, factor, noise float64, strict bool, change func(*bench.Run)) *Judgement {
	t.Helper()
	run := analysistest.Run(analysistest.Shape{
		Seed: 11, Blocks: 40, Cells: []analysistest.Cell{{Name: "base"}, {Name: "new", Factor: factor}},
		Noise: func(r *rand.Rand) float64 { return noise * r.NormFloat64() },
	})
	run.Header.Plan.Smallest = 0.05
	if change != nil {
		change(run)
	}
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Judge(report.New(r, nil), strict, "0001")
}

func TestJudge(t *testing.T) {
	scaleControl := func(by float64) func(*bench.Run) {
		return func(run *bench.Run) {
			for i := range run.Samples {
				if s := &run.Samples[i]; run.Header.Plan.Cells[s.Trial.Cell].Control {
					for k := range s.Values {
						s.Values[k] *= by
					}
				}
			}
		}
	}
	failBaseline := func(run *bench.Run) {
		for i := range run.Samples {
			if s := &run.Samples[i]; run.Header.Plan.Cells[s.Trial.Cell].Name == "base" && !run.Header.Plan.Cells[s.Trial.Cell].Control {
				s.Outcome, s.Values, s.Reason = bench.Failed, nil, "no"
			}
		}
	}
	for _, c := range []struct {
		name          string
		factor, noise float64
		strict        bool
		change        func(*bench.Run)
		want          Outcome
		state         State
	}{
		{"the same", 1, 0.01, false, nil, Passed, Harmless},
		{"the same, strict", 1, 0.01, true, nil, Passed, Harmless},
		{"better", 0.5, 0.01, true, nil, Passed, Harmless},
		{"worse beyond the margin", 1.2, 0.01, false, nil, Worse, IsWorse},
		{"worse within the margin", 1.03, 0.005, false, nil, Passed, Harmless},
		{"the same, but noisy", 1, 0.5, false, nil, Passed, Unproved},
		{"the same, but noisy, strict", 1, 0.5, true, nil, Undecided, Unproved},
		{"the control differs", 1.2, 0.01, false, scaleControl(1.5), Undecided, Unreliable},
		{"the control differs a little", 3, 0.0001, false, scaleControl(1.02), Worse, IsWorse},
		{"the control differs a little, and the rest is far better", 1 / 3., 0.0001, true, scaleControl(1.02), Passed, Harmless},
		{"the baseline failed", 1, 0.01, false, failBaseline, Undecided, Unreliable},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := judged(t, c.factor, c.noise, c.strict, c.change)
			if j.Outcome != c.want {
				t.Errorf("the outcome is %q, want %q", j.Outcome, c.want)
			}
			if len(j.Checks) != 2 {
				t.Fatalf("%d checks, want one for each primary metric", len(j.Checks))
			}
			for _, check := range j.Checks {
				if check.State != c.state {
					t.Errorf("%s is %q, want %q", check.Metric, check.State, c.state)
				}
			}
		})
	}
}

// TestBesideAControl checks what is made of an effect that is far beyond its control, and not confirmed.
func TestBesideAControl(t *testing.T) {
	m := &report.Metric{Better: bench.Lower}
	for _, tt := range []struct {
		verdict       analysis.Verdict
		low, high     float64
		alone, beside State
	}{
		{analysis.Unclear, 0.5, 0.9, Harmless, Unreliable},
		{analysis.Unclear, 1.5, 2, Unproved, Unreliable},
		{analysis.Better, 0.5, 0.9, Harmless, Harmless},
		{analysis.Worse, 1.5, 2, IsWorse, IsWorse},
	} {
		estimate, detectable := math.Sqrt(tt.low*tt.high), 1.3
		e := &report.Effect{
			Scale: bench.Ratio, Verdict: string(tt.verdict), Estimate: &estimate, Low: &tt.low, High: &tt.high,
			Detectable: &detectable, Smallest: 0.05,
		}
		for differs, want := range map[bool]State{false: tt.alone, true: tt.beside} {
			if got, _ := stateOf(m, e, differs); got != want {
				t.Errorf("%s, ×%v to ×%v, the control differs: %v: %s, want %s", tt.verdict, tt.low, tt.high, differs, got, want)
			}
		}
	}
}

// TestWorseAndUnreliable checks that what is worse stays worse beside a metric of which nothing can be said, and that
// each form shows both.
func TestWorseAndUnreliable(t *testing.T) {
	scaleControlOfTotal := func(run *bench.Run) {
		for i := range run.Samples {
			if s := &run.Samples[i]; run.Header.Plan.Cells[s.Trial.Cell].Control {
				s.Values[1] *= 1.5
			}
		}
	}
	j := judged(t, 1.2, 0.01, false, scaleControlOfTotal)
	if j.Outcome != Worse || j.Checks[0].State != IsWorse || j.Checks[1].State != Unreliable {
		t.Fatalf("%q, %q and %q, want %q, %q and %q",
			j.Outcome, j.Checks[0].State, j.Checks[1].State, Worse, IsWorse, Unreliable)
	}
	wrote := inEachForm(t, j)
	for form, wants := range map[string][]string{
		"junit":    {`tests="2" failures="1" errors="1"`},
		"github":   {"::error ", "::warning ", "::notice title=tare gate::failed: 1 of 2 comparisons worse"},
		"gitlab":   {`tare_gate_outcome{experiment="lifecycle"} 1`, `metric="total",cell="new",condition=""} 2`},
		"markdown": {"| unreliable | whole life, new against base | unreliable: +19 to +21 %; control differs by ×1.49 |  |  |"},
	} {
		for _, want := range wants {
			if !strings.Contains(wrote[form], want) {
				t.Errorf("%s lacks %q:\n%s", form, want, wrote[form])
			}
		}
	}
	for form, said := range wrote {
		if strings.Contains(said, "margin 0 %") || strings.Contains(said, "could not have") {
			t.Errorf("%s has a margin or a power of what could not be judged:\n%s", form, said)
		}
	}
}

// inEachForm writes a judgement in all forms.
func inEachForm(t testing.TB, j *Judgement) map[string]string {
	t.Helper()
	wrote := map[string]string{}
	for form, write := range map[string]func(io.Writer, *Judgement) error{
		"text":     func(w io.Writer, j *Judgement) error { return Write(w, j, 80) },
		"json":     func(w io.Writer, j *Judgement) error { return plain.WriteJSON(w, j, "  ") },
		"markdown": WriteMarkdown, "junit": WriteJUnit, "github": WriteAnnotations, "gitlab": WriteMetrics,
	} {
		var b strings.Builder
		if err := write(&b, j); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		wrote[form] = b.String()
	}
	return wrote
}

// TestTrialsFailed checks that no form is green if trials failed, though nothing is worse.
func TestTrialsFailed(t *testing.T) {
	failOne := func(run *bench.Run) {
		s := &run.Samples[len(run.Samples)-1]
		s.Outcome, s.Values, s.Reason = bench.Failed, nil, "no"
	}
	j := judged(t, 1, 0.01, false, failOne)
	if j.Outcome != TrialsFailed {
		t.Fatalf("the outcome is %q, want %q", j.Outcome, TrialsFailed)
	}
	wrote := inEachForm(t, j)
	for form, want := range map[string]string{
		"text": "trials failed: ", "markdown": "**: trials failed: ", "gitlab": `tare_gate_outcome{experiment="lifecycle"} 3`,
		"junit": `<error message="1 failure in trials">`, "github": "::warning title=tare gate::1 failure in trials",
		"json": `"outcome": "trials-failed"`,
	} {
		if !strings.Contains(wrote[form], want) || strings.Contains(wrote[form], "passed") {
			t.Errorf("%s lacks %q, or says that it passed:\n%s", form, want, wrote[form])
		}
	}
}

// many is a judgement of 2,000 comparisons. What matters is at the end.
func many() *Judgement {
	j := &Judgement{Experiment: "cpu", Run: "0001", Host: "node7"}
	for i := range 2000 {
		c := Check{
			Metric: "m", Title: "metric", Cell: fmt.Sprint("cell ", i), Baseline: "base", State: Harmless,
			Finding: "at most 3 % slower, and at most 2 % faster",
		}
		switch {
		case i >= 1985:
			c.State = IsWorse
		case i >= 1970:
			c.State = Unreliable
		}
		j.Checks = append(j.Checks, c)
	}
	j.decide()
	return j
}

// TestBounded checks that no form grows beyond what services accept, that what is worse is never what is left out
// for something else, and that each form says how much is.
func TestBounded(t *testing.T) {
	wrote := inEachForm(t, many())
	if n := len(wrote["markdown"]); n > maxMarkdown || n < maxMarkdown/2 {
		t.Errorf("%d bytes of Markdown, want at most %d", n, maxMarkdown)
	}
	for form, wants := range map[string]map[string]int{
		"markdown": {"| WORSE |": 15, "| unreliable |": 15, "\n\nleft out: 1,": 1, " harmless)\n": 1, "\nRun 0001 on node7": 1},
		"github": {
			"::error ": maxAnnotations, "::warning ": maxAnnotations,
			"left out: 10 comparisons (5 WORSE, 5 unreliable)\n": 1,
		},
		"junit": {
			"<testcase ": maxListed + 1, "<failure ": 15, "<error ": 15, "<skipped ": 1,
			`message="left out: 1,000 comparisons (1,000 harmless)"`: 1,
		},
		"gitlab": {"\ntare_gate{": maxListed, "} 1\n": 16, "} 2\n": 15, `tare_gate_left_out{experiment="cpu"} 1000`: 1},
	} {
		for want, n := range wants {
			if got := strings.Count(wrote[form], want); got != n {
				t.Errorf("%s has %q %d times, want %d", form, want, got, n)
			}
		}
	}
	if first := strings.Index(wrote["markdown"], "| WORSE |"); first > strings.Index(wrote["markdown"], "| unreliable |") {
		t.Error("Markdown has what is unreliable before what is worse")
	}
}

// TestLongTexts checks that one long name does not take the room of the rest.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("&", 100_000)
	for form, said := range inEachForm(t, &Judgement{
		Outcome: Worse, Run: long, Experiment: long, Host: long, id: long, Checks: []Check{
			{
				Metric: long, Title: long, Unit: long, Cell: long, Baseline: long, Condition: long, State: IsWorse, Finding: long,
				Margin: new(0.05), Effect: &report.Effect{Scale: bench.Difference, Detectable: new(0.1)},
			},
		},
	}) {
		if form != "json" && len(said) > 20_000 {
			t.Errorf("%s has %d bytes", form, len(said))
		}
		if form == "markdown" && !strings.Contains(said, "| WORSE |") {
			t.Errorf("%s lacks the row", form)
		}
	}
}

// TestNothingToJudge checks that a run without comparisons never passes.
func TestNothingToJudge(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 1, Blocks: 10, NoControl: true, Cells: []analysistest.Cell{{Name: "base"}}})
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j := Judge(report.New(r, nil), false, "0001")
	if j.Outcome != Undecided {
		t.Errorf("the outcome is %q, want %q", j.Outcome, Undecided)
	}
	if junit := inEachForm(t, j)["junit"]; !strings.Contains(junit, `tests="1" failures="0" errors="1"`) {
		t.Errorf("the suite is green: %s", junit)
	}
}

// TestTooLittle checks that a run that could not have failed does not pass: it has too few blocks for
// any verdict, or it is under way.
func TestTooLittle(t *testing.T) {
	for name, c := range map[string]struct {
		blocks  int
		running bool
		want    string
	}{
		"few blocks": {3, false, "nothing can be said: 2 of 2 comparisons unreliable"},
		"under way":  {40, true, "nothing can be said: the run is under way"},
	} {
		run := analysistest.Run(analysistest.Shape{
			Seed: 2, Blocks: c.blocks, Cells: []analysistest.Cell{{Name: "base"}, {Name: "new"}},
		})
		if c.running {
			run.End = nil
		}
		r, err := analysis.Analyze(run, analysis.Options{Running: c.running})
		if err != nil {
			t.Fatal(err)
		}
		j := Judge(report.New(r, nil), false, "0001")
		if j.Outcome != Undecided || j.summary() != c.want {
			t.Errorf("%s: the outcome is %q, %q; want %q, %q", name, j.Outcome, j.summary(), Undecided, c.want)
		}
	}
}

// TestPower checks how the difference is written that a run would have found.
func TestPower(t *testing.T) {
	for found, want := range map[float64]string{
		1.0583: "5.8 %", 1.123: "12 %", 1.996: "100 %", 2.34: "×2.3", 123: "×120", 1.00042: "0.042 %",
	} {
		c := Check{Margin: new(0.05), Effect: &report.Effect{Scale: bench.Ratio, Detectable: &found}}
		if got := c.power(); got != "would have found "+want+" four times in five" {
			t.Errorf("%v: %q, want %s", found, got, want)
		}
	}
	c := Check{Margin: new(0.05), Effect: &report.Effect{}}
	if got := c.power(); got != "could not have confirmed any difference" {
		t.Errorf("without power: %q", got)
	}
	if got := (&Check{}).power(); got != "" {
		t.Errorf("without anything to judge: %q", got)
	}
}

// TestExactly checks that a finding shows on which side of the margin it lies: rounded to two digits, a
// change can look like the margin, and a rate that falls by 4.9 % is beyond a factor of 1.05.
func TestExactly(t *testing.T) {
	for _, c := range []struct {
		better              bench.Direction
		margin              float64
		low, estimate, high float64
		worse               bool
		want                string // after the rounded finding
		wantMargin          string
	}{
		{bench.Lower, 0.05, 1.03, 1.0502, 1.07, true, ", exactly 5.02 %, the margin is 5.00 %", "5 %"},
		{bench.Lower, 0.05, 1.03, 1.050004, 1.07, true, ", exactly 5.0004 %, the margin is 5.0000 %", "5 %"},
		{bench.Lower, 0.05, 1.03, 1.12, 1.2, true, "", "5 %"},
		{bench.Lower, 0.05, 1.01, 1.03, 1.05, false, ", the interval ends at the margin", "5 %"},
		{bench.Lower, 0.125, 0.99, 1.01, 1.124, false, ", the interval ends at 12.40 %, the margin is 12.50 %", "12.5 %"},
		{bench.Lower, 0.05, 0.99, 1.01, 1.018, false, "", "5 %"},
		{bench.Lower, 0.05, 0.9, 0.95, 0.98, false, "", "5 %"},
		{bench.Higher, 0.05, 0.951, 0.99, 1.02, false, "", "5 % (4.76 % less)"},
		{bench.Higher, 0.05, 0.9522, 0.99, 1.02, false, ", the interval ends at 4.78 %, the margin is 4.76 %", "5 % (4.76 % less)"},
		{bench.Higher, 0.05, 0.95239, 0.99, 1.02, false, ", the interval ends at 4.761 %, the margin is 4.762 %", "5 % (4.76 % less)"},
	} {
		verdict, detectable := analysis.Unclear, 1.05
		if c.worse {
			verdict = analysis.Worse
		}
		m := &report.Metric{Better: c.better, Role: bench.Primary}
		j := &Judgement{}
		j.check(m, &report.Condition{Baseline: "base", Rows: []report.Row{{Cell: "new", N: 9, Effect: &report.Effect{
			Scale: bench.Ratio, Verdict: string(verdict), Smallest: c.margin, Detectable: &detectable,
			Low: &c.low, Estimate: &c.estimate, High: &c.high,
		}, Finding: &report.Finding{}}}})
		got := j.Checks[0]
		if got.Finding != c.want || got.margin() != c.wantMargin {
			t.Errorf("%v [%v, %v, %v]: %q, margin %q; want %q, %q",
				c.better, c.low, c.estimate, c.high, got.Finding, got.margin(), c.want, c.wantMargin)
		}
	}
}

// TestGateIsAsWideAsTheTerminal checks that no line is wider than it may be.
func TestGateIsAsWideAsTheTerminal(t *testing.T) {
	j := judged(t, 1.2, 0.01, false, nil)
	j.Checks[0].Condition = "a condition of many words, none of which is long, and a baseline beside them"
	for _, columns := range []int{40, 80, 120} {
		var b bytes.Buffer
		if err := Write(&b, j, columns); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := term.Width(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%d columns instead of %d: %s", n, columns, line)
			}
		}
	}
}

// TestForges checks what each form says of what is worse.
func TestForges(t *testing.T) {
	j := judged(t, 1.2, 0.01, false, nil)
	for name, c := range map[string]struct {
		write func(*bytes.Buffer) error
		want  []string
	}{
		"text": {func(b *bytes.Buffer) error { return Write(b, j, 80) }, []string{
			"WORSE", "margin 5 %", "would have found", "failed: 2 of 2",
		}},
		"markdown": {func(b *bytes.Buffer) error { return WriteMarkdown(b, j) }, []string{
			"<!-- tare gate lifecycle -->\n", "| WORSE | time to first instruction, new against base |",
		}},
		"junit": {func(b *bytes.Buffer) error { return WriteJUnit(b, j) }, []string{`failures="2"`, `<failure message="WORSE: `}},
		"github": {func(b *bytes.Buffer) error { return WriteAnnotations(b, j) }, []string{
			"::error title=tare gate%3A WORSE::time to first instruction, new against base: ", "::notice title=tare gate::failed: 2 of 2",
		}},
		"gitlab": {func(b *bytes.Buffer) error { return WriteMetrics(b, j) }, []string{
			`tare_gate{experiment="lifecycle",metric="total",cell="new",condition=""} 1`, "# EOF\n",
		}},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, b.String())
			}
		}
	}
}

// FuzzForges writes judgements of foreign texts, in each form.
func FuzzForges(f *testing.F) {
	for _, s := range []string{"base", "a\n::error::x", "--><script>", "`x` | y", "%0A", `"} 1`, "\u202e", "]]>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		j := &Judgement{Outcome: Worse, Run: s, Experiment: s, Host: s, id: s, Checks: []Check{
			{
				Metric: s, Title: s, Unit: s, Cell: s, Baseline: s, Condition: s, State: IsWorse, Finding: s,
				Margin: new(0.05), Effect: &report.Effect{Scale: bench.Difference, Detectable: new(0.1)},
			},
		}}
		wrote := inEachForm(t, j)
		if hidden := strings.IndexFunc(strings.ReplaceAll(wrote["text"], "\n", ""), plain.IsHidden); hidden >= 0 {
			t.Errorf("hidden characters in %q", wrote["text"])
		}
		var read Judgement
		if err := json.Unmarshal([]byte(wrote["json"]), &read); err != nil || len(read.Checks) != 1 ||
			utf8.ValidString(s) && read.Checks[0].Finding != s {
			t.Errorf("%v in %q", err, wrote["json"])
		}
		var b bytes.Buffer
		if err := WriteJUnit(&b, j); err != nil {
			t.Fatal(err)
		}
		var back junitSuites
		if err := xml.Unmarshal(b.Bytes(), &back); err != nil || back.Suites[0].Failures != 1 {
			t.Fatalf("%v in %s", err, b.Bytes())
		}
		lines := func(write func(*bytes.Buffer) error) int {
			b.Reset()
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(b.String(), "\r\u202e\x00") {
				t.Errorf("hidden characters in %q", b.String())
			}
			return strings.Count(b.String(), "\n")
		}
		if n := lines(func(b *bytes.Buffer) error { return WriteAnnotations(b, j) }); n != 2 {
			t.Errorf("%d annotations, want 2: %q", n, b.String())
		}
		if n := lines(func(b *bytes.Buffer) error { return WriteMetrics(b, j) }); n != 7 {
			t.Errorf("%d lines of metrics, want 7: %q", n, b.String())
		}
		readMetrics(t, b.Bytes(), s)
		if n := lines(func(b *bytes.Buffer) error { return WriteMarkdown(b, j) }); n != 8 {
			t.Errorf("%d lines of Markdown, want 8: %q", n, b.String())
		}
		if strings.Contains(b.String(), "<script") || strings.Count(strings.ReplaceAll(b.String(), "<!-- -->", ""), "-->") != 1 {
			t.Errorf("HTML in %q", b.String())
		}
	})
}

// readMetrics reads two metrics with the parser of Prometheus' textfile collector: each of their labels is a name.
func readMetrics(t *testing.T, text []byte, name string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if len(families) != 2 {
		t.Fatalf("%v is read, want two metrics", families)
	}
	for _, family := range []string{"tare_gate_outcome", "tare_gate"} {
		all := families[family].GetMetric()
		if len(all) != 1 || all[0].GetGauge().GetValue() != 1 {
			t.Fatalf("%s is %v, want one that is 1", family, all)
		}
		for _, l := range all[0].GetLabel() {
			if l.GetValue() != line(name) {
				t.Errorf("label %s is %q, want %q", l.GetName(), l.GetValue(), line(name))
			}
		}
	}
}
