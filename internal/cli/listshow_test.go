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

// The list fits on a terminal of 80 columns with what matters most, however many trials failed and
// with labels; elsewhere nothing is left out.
func TestListFits(t *testing.T) {
	began := time.Date(2026, 3, 14, 15, 9, 26, 0, time.Local)
	runs := []listed{
		{
			Short: "abcd", Name: "before", Experiment: "quick", Labels: []bench.Label{{Key: "side", Value: "before"}},
			Host: "a-host-with-a-name", Began: began, Samples: 4321, Failed: 12, Status: string(bench.StopPrecision),
			names: []string{"native", "docker"},
		},
		{
			Short: "abce", Experiment: "what-the-network-costs", Host: "vm", Began: began, Samples: 12, Failed: 1, Partly: 3,
			Status: "incomplete",
		},
	}
	for _, width := range []int{80, term.Unlimited} {
		tty := width != term.Unlimited
		var b bytes.Buffer
		writeList(&b, runs, width, began.Add(time.Hour))
		text := b.String()
		for line := range strings.Lines(text) {
			if n := term.Width(strings.TrimRight(line, "\n")); tty && n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		for _, part := range []string{
			runs[0].Short, "before", "side=", "12", "done: precise", "incomplete", "FAILED", "1 + 3 partly",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("terminal %v: %q is missing:\n%s", tty, part, text)
			}
		}
		want := "2026-03-14 15:09"
		if tty {
			want = "Mar 14 15:09"
		}
		if strings.Count(text, want) != len(runs) {
			t.Errorf("terminal %v: %q is missing:\n%s", tty, want, text)
		}
		if whole := strings.Contains(text, "a-host-with-a-name") && strings.Contains(text, "what-the-network-costs") &&
			strings.Contains(text, "side=before"); whole == tty {
			t.Errorf("terminal %v: all columns %v:\n%s", tty, whole, text)
		}
	}
}

// Labels are shown on a terminal of 80 columns, shortened if need be.
func TestListShowsLabels(t *testing.T) {
	began := time.Date(2026, 3, 14, 15, 9, 26, 0, time.Local)
	for value, want := range map[string]string{
		"before": "side=before", "x": "side=x", "a-value-that-has-no-end-at-all": "side=a-value-th…",
	} {
		run := listed{
			Short: "qos6", Name: "before-upgrade", Experiment: "lifecycle", Host: "vm", Began: began, Samples: 44, Failed: 1,
			Status: string(bench.StopBlocks), Labels: []bench.Label{{Key: "side", Value: value}}, names: []string{"native", "docker"},
		}
		var b bytes.Buffer
		writeList(&b, []listed{run}, 80, began.Add(time.Hour))
		for line := range strings.Lines(b.String()) {
			if n := term.Width(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if text := b.String(); !strings.Contains(text, want+"\n") || !strings.Contains(text, "before-upgrade") {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

func TestShortTime(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 0, 0, 0, time.Local)
	for want, at := range map[string]time.Time{
		"Nov 23 13:59": now.Add(-time.Minute),
		"Sep  4 07:00": time.Date(2026, 9, 4, 7, 0, 0, 0, time.Local),
		"Jan  2  2026": time.Date(2026, 1, 2, 7, 0, 0, 0, time.Local),
		"Dec 31  2027": time.Date(2027, 12, 31, 7, 0, 0, 0, time.Local), // a clock that was wrong
	} {
		if got := shortTime(at, now); got != want {
			t.Errorf("%v is %q, want %q", at, got, want)
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
		{
			Short: "a", Name: hostile, Experiment: hostile, Host: hostile, names: []string{hostile},
			Labels: []bench.Label{{Key: hostile, Value: hostile}},
		},
	}, term.Unlimited, time.Now())
	if text := b.String(); strings.ContainsAny(text, "\x1b\a\t") || strings.Count(text, "\n") != 5 {
		t.Errorf("%q", text)
	}
}
