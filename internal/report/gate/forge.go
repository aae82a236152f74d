package gate

import (
	"fmt"
	"io"
	"strings"

	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// What services accept at most: GitHub takes 65,536 characters in a comment and drops a step
// summary above 1 MiB, and shows ten annotations of a kind for each step. Nobody reads more than
// the others allow.
const (
	maxMarkdown    = 60_000
	maxAnnotations = 10
	maxListed      = 1_000 // comparisons in JUnit, and in GitLab's metrics
	maxText        = 200   // characters of one foreign text
)

// line is foreign text for one line, of a length that leaves room for others.
func line(s string) string {
	all := []rune(plain.Line(s))
	if len(all) <= maxText {
		return string(all)
	}
	return string(all[:maxText-1]) + "…"
}

// listed are the checks that a bounded form has, the worst first, and rest are the others.
func (j *Judgement) listed() (listed, rest []*Check) {
	all := j.ranked()
	n := min(len(all), maxListed)
	return all[:n], all[n:]
}

// leftOut says how many checks are not listed, and of which states; empty for none.
func leftOut(checks []*Check) string {
	if len(checks) == 0 {
		return ""
	}
	counts := map[State]int{}
	for _, c := range checks {
		counts[c.State]++
	}
	var parts []string
	for _, s := range states() {
		if counts[s] > 0 {
			parts = append(parts, unit.Format(float64(counts[s]), unit.Count)+" "+s.label())
		}
	}
	return "left out: " + unit.FormatCount(len(checks), "comparison") + " (" + strings.Join(parts, ", ") + ")"
}

// WriteMarkdown writes the judgement for a comment or a step summary. Its first line is a comment
// by which a workflow finds the comment of an earlier run again.
func WriteMarkdown(w io.Writer, j *Judgement) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- tare gate %s -->\n", comment(line(j.Experiment)))
	fmt.Fprintf(&b, "**tare gate %s**: %s\n\n", escaped(line(j.Experiment)), escaped(j.summary()))
	b.WriteString("| | comparison | found | margin | power |\n| --- | --- | --- | --- | --- |\n")
	end := fmt.Sprintf("\nRun %s on %s, %d blocks, seed %d.\n", escaped(line(j.Run)), escaped(line(j.Host)), j.Blocks,
		j.Seed)
	all := j.ranked()
	for i, c := range all {
		row := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", c.State.label(), escaped(c.pair()), escaped(line(c.Finding)),
			escaped(c.margin()), escaped(c.power()))
		left := "\n" + leftOut(all[i:]) + "\n"
		if b.Len()+len(row)+len(left)+len(end) > maxMarkdown {
			b.WriteString(left)
			break
		}
		b.WriteString(row)
	}
	b.WriteString(end)
	_, err := io.WriteString(w, b.String())
	return err
}

// escaped keeps foreign text from being Markdown.
func escaped(s string) string { return plain.Markdown(plain.Line(s)) }

// comment keeps text inside a comment of HTML.
func comment(s string) string {
	return strings.NewReplacer("--", "––", "<", "‹", ">", "›").Replace(plain.Line(s))
}

// WriteAnnotations writes commands of GitHub's Actions, which show a line for whatever did not pass.
func WriteAnnotations(w io.Writer, j *Judgement) error {
	var b strings.Builder
	command := func(kind, title, text string) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", kind, property(title), data(text))
	}
	counts := map[string]int{}
	for _, o := range j.obstacles() {
		command("warning", "tare gate", o)
		counts["warning"]++
	}
	var rest []*Check
	for _, c := range j.ranked() {
		kind := map[Outcome]string{Worse: "error", Undecided: "warning"}[j.outcomeOf(c)]
		switch {
		case kind == "":
		case counts[kind] == maxAnnotations:
			rest = append(rest, c)
		default:
			command(kind, "tare gate: "+c.State.label(), c.pair()+": "+line(c.Finding))
			counts[kind]++
		}
	}
	said := j.summary()
	if len(rest) > 0 {
		said += "; " + leftOut(rest)
	}
	command("notice", "tare gate", said)
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

// WriteMetrics writes the judgement as OpenMetrics text, for GitLab's report of metrics. GitLab shows what has
// another text than on the target branch. An estimate has another one in each run, so there is only what the
// gate says.
func WriteMetrics(w io.Writer, j *Judgement) error {
	var b strings.Builder
	const values = "0 passes, 1 is worse beyond its margin, 2 nothing can be said"
	of := "{experiment=" + label(j.Experiment)
	fmt.Fprintf(&b, "# TYPE tare_gate_outcome gauge\n# HELP tare_gate_outcome Of the gate: %s, 3 trials failed.\n", values)
	fmt.Fprintf(&b, "tare_gate_outcome%s} %d\n", of, j.Outcome.number())
	fmt.Fprintf(&b, "# TYPE tare_gate gauge\n# HELP tare_gate Of one comparison: %s.\n", values)
	listed, rest := j.listed()
	for _, c := range listed {
		fmt.Fprintf(&b, "tare_gate%s,metric=%s,cell=%s,condition=%s} %d\n", of, label(c.Metric), label(c.Cell),
			label(c.Condition), j.outcomeOf(c).number())
	}
	if len(rest) > 0 {
		b.WriteString("# TYPE tare_gate_left_out gauge\n# HELP tare_gate_left_out Comparisons that are not listed.\n")
		fmt.Fprintf(&b, "tare_gate_left_out%s} %d\n", of, len(rest))
	}
	b.WriteString("# EOF\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// number is an outcome for a metric.
func (o Outcome) number() int {
	switch o {
	case Worse:
		return 1
	case Undecided:
		return 2
	case TrialsFailed:
		return 3
	default:
		return 0
	}
}

// label quotes the value of a label.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(line(s)) + `"`
}
