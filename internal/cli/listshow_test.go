package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/text/term"
)

// The list fits on a terminal of 80 columns with what matters most, however many
// trials failed; elsewhere nothing is left out.
func TestListFits(t *testing.T) {
	runs := []listed{
		{
			Short: "abcd", Name: "before", Experiment: "quick", Labels: []bench.Label{{Key: "side", Value: "before"}},
			Host: "a-host-with-a-name", Began: time.Now(), Samples: 4321, Failed: 12, Status: string(bench.StopPrecision),
		},
		{Short: "abce", Experiment: "what-the-network-costs", Host: "vm", Began: time.Now(), Samples: 12, Failed: 1, Partly: 3, Status: "incomplete"},
	}
	for _, width := range []int{80, term.Unlimited} {
		tty := width != term.Unlimited
		var b bytes.Buffer
		writeList(&b, runs, width)
		text := b.String()
		for line := range strings.Lines(text) {
			if n := term.Width(strings.TrimRight(line, "\n")); tty && n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		for _, part := range []string{
			runs[0].Short, "before", "4321", "12", "done: precise", "incomplete", "FAILED", "1 + 3 partly",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("terminal %v: %q is missing:\n%s", tty, part, text)
			}
		}
		if whole := strings.Contains(text, "a-host-with-a-name") && strings.Contains(text, "what-the-network-costs") &&
			strings.Contains(text, "side=before"); whole == tty {
			t.Errorf("terminal %v: all columns %v:\n%s", tty, whole, text)
		}
	}
}

// What an imported file says comes to a terminal as text, in its own row.
func TestTrialsAreHarmless(t *testing.T) {
	const hostile = "x\x1b]0;y\a\n9\t9"
	var b bytes.Buffer
	run := &bench.Run{
		Header: bench.Header{
			Plan:    bench.Plan{Cells: []bench.Cell{{Name: hostile}, {Name: "a"}}},
			Metrics: []bench.Metric{{Name: hostile, Unit: hostile, Role: bench.Primary}},
		},
		Samples: []bench.Sample{
			{Outcome: bench.OK, Values: []float64{1}}, {Trial: bench.Trial{Seq: 1, Cell: 1}, Outcome: bench.Failed, Reason: hostile},
		},
	}
	var widths []int
	var rows [][]string
	for row, err := range trialRows(record.Events(run)) {
		if err != nil {
			t.Fatal(err)
		}
		rows, widths = append(rows, row), columnWidths(widths, row)
	}
	for _, row := range rows {
		b.WriteString(term.Line(row, widths))
	}
	writeList(&b, []listed{
		{Short: "a", Name: hostile, Experiment: hostile, Host: hostile, Labels: []bench.Label{{Key: hostile, Value: hostile}}},
	}, term.Unlimited)
	if text := b.String(); strings.ContainsAny(text, "\x1b\a\t") || strings.Count(text, "\n") != 5 {
		t.Errorf("%q", text)
	}
}
