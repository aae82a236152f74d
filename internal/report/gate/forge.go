package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/tare-bench/tare/internal/text/plain"
)

// What services accept at most: GitHub takes 65,536 characters in a comment and drops a step
// summary above 1 MiB, and shows ten annotations of a kind for each step.
const (
	maxMarkdown    = 60_000
	maxAnnotations = 10
)

// WriteMarkdown writes the judgement for a comment or a step summary. Its first line is a comment
// by which a workflow finds the comment of an earlier run again.
func WriteMarkdown(w io.Writer, j *Judgement) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- tare gate %s -->\n", comment(j.Experiment))
	fmt.Fprintf(&b, "**tare gate %s**: %s\n\n", markdown(j.Experiment), markdown(j.summary()))
	b.WriteString("| | comparison | found | margin | power |\n| --- | --- | --- | --- | --- |\n")
	end := fmt.Sprintf("\nRun %s on %s, %d blocks, seed %d.\n", markdown(j.Run), markdown(j.Host), j.Blocks, j.Seed)
	for i := range j.Checks {
		c := &j.Checks[i]
		row := fmt.Sprintf("| %s | %s against %s | %s | %s | %s |\n", c.State.label(), markdown(c.name()),
			markdown(c.Baseline), markdown(c.Finding), markdown(c.margin()), markdown(c.power()))
		if b.Len()+len(row)+len(end)+100 > maxMarkdown {
			fmt.Fprintf(&b, "\n%d more comparisons are not listed.\n", len(j.Checks)-i)
			break
		}
		b.WriteString(row)
	}
	b.WriteString(end)
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown keeps foreign text from being Markdown or HTML.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range plain.Line(s) {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '\\', '`', '*', '_', '|', '[', ']', '~', '#', '@', '!':
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "://", `:\//`)
}

// comment keeps text inside a comment of HTML.
func comment(s string) string {
	return strings.NewReplacer("--", "––", "<", "‹", ">", "›").Replace(plain.Line(s))
}

// WriteAnnotations writes commands of GitHub's Actions, which show a line for each comparison that
// did not pass.
func WriteAnnotations(w io.Writer, j *Judgement) error {
	var b strings.Builder
	counts := map[string]int{}
	for i := range j.Checks {
		c := &j.Checks[i]
		kind := ""
		switch {
		case c.State == IsWorse:
			kind = "error"
		case c.State == Unreliable, j.Strict && c.State == Unproved:
			kind = "warning"
		}
		if kind == "" {
			continue
		}
		if counts[kind]++; counts[kind] <= maxAnnotations {
			fmt.Fprintf(&b, "::%s title=%s::%s\n", kind, property("tare gate: "+c.State.label()),
				data(c.name()+" against "+plain.Line(c.Baseline)+": "+c.Finding))
		}
	}
	fmt.Fprintf(&b, "::notice title=%s::%s\n", property("tare gate"), data(j.summary()))
	_, err := io.WriteString(w, b.String())
	return err
}

// data escapes the text of a command, and property a value before it.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(plain.Line(s))
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}

// The parts of a JUnit file.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Failure *junitText `xml:"failure,omitempty"`
		Error   *junitText `xml:"error,omitempty"`
		Skipped *junitText `xml:"skipped,omitempty"`
		Output  string     `xml:"system-out,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the judgement as test results: a failure is worse, an error unreliable, and what
// is not shown to be harmless is skipped or, if the gate is strict, an error.
func WriteJUnit(w io.Writer, j *Judgement) error {
	suite := junitSuite{
		Name: "tare " + plain.Line(j.Experiment), Tests: len(j.Checks), Failures: j.count(IsWorse),
		Properties: []junitProperty{
			{"run", plain.Line(j.Run)},
			{"host", plain.Line(j.Host)},
			{"seed", fmt.Sprint(j.Seed)},
			{"blocks", fmt.Sprint(j.Blocks)},
			{"outcome", string(j.Outcome)},
		},
	}
	for i := range j.Checks {
		c := &j.Checks[i]
		one := junitCase{
			Name: c.name(), Class: plain.Line(j.Experiment + "." + c.Metric),
			Output: fmt.Sprintf("%s; margin %s; %s", c.Finding, c.margin(), c.power()),
		}
		text := &junitText{Message: c.State.label() + ": " + c.Finding, Text: "against " + plain.Line(c.Baseline)}
		switch {
		case c.State == IsWorse:
			one.Failure = text
		case c.State == Unreliable, c.State == Unproved && j.Strict:
			one.Error = text
			suite.Errors++
		case c.State == Unproved:
			one.Skipped = text
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, one)
	}
	b, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(b)+"\n")
	return err
}

// WriteMetrics writes the judgement as OpenMetrics text, for GitLab's report of metrics. GitLab compares
// texts, so a change is written only as far as the run knows it.
func WriteMetrics(w io.Writer, j *Judgement) error {
	var b strings.Builder
	b.WriteString("# TYPE tare_gate_worse gauge\n" +
		"# HELP tare_gate_worse 1 where a difference is worse beyond its margin.\n")
	for i := range j.Checks {
		c := &j.Checks[i]
		worse := 0
		if c.State == IsWorse {
			worse = 1
		}
		fmt.Fprintf(&b, "tare_gate_worse{experiment=%s,metric=%s,cell=%s,condition=%s} %d\n", label(j.Experiment),
			label(c.Metric), label(c.Cell), label(c.Condition), worse)
	}
	b.WriteString("# EOF\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// label quotes the value of a label.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(plain.Line(s)) + `"`
}
