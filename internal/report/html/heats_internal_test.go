package html

import (
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// A metric without any condition has no map.
func TestNoHeat(t *testing.T) {
	if all := heats(&report.Metric{}, newLimits(&report.Document{})); all != nil {
		t.Errorf("%d maps, want none", len(all))
	}
}

// TestBaselinesOfHeat checks that each difference of a map is told against the baseline of its own condition.
func TestBaselinesOfHeat(t *testing.T) {
	m, l := report.Metric{Title: "time"}, newLimits(&report.Document{})
	for i, base := range []string{"runc", "runc", "crun"} {
		m.Conditions = append(m.Conditions, report.Condition{
			Baseline: base, Levels: []report.ConditionLevel{{Key: "clients", Value: string(rune('1' + i))}}, Rows: []report.Row{
				{Cell: base}, {Cell: "docker", Effect: &report.Effect{}, Finding: &report.Finding{Text: "same"}},
			},
		})
	}
	v := heats(&m, l)[0]
	if want := "time against the baseline of each condition, by clients"; v.Title != want {
		t.Errorf("title %q, want %q", v.Title, want)
	}
	cells := v.Groups[0].Lines[0].Cells
	if first, last := cells[1].Text, cells[3].Text; first != "same against runc" || last != "same against crun" {
		t.Errorf("%q and %q", first, last)
	}
	m.Conditions[2].Baseline = "runc"
	v = heats(&m, l)[0]
	if v.Title != "time against runc, by clients" || v.Groups[0].Lines[0].Cells[1].Text != "same" {
		t.Errorf("with one baseline: %q, %+v", v.Title, v.Groups[0].Lines[0])
	}
}
