package figure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/report"
)

// TestCurveTable checks that each row has what all cells have at one position, also where a cell has no
// value there.
func TestCurveTable(t *testing.T) {
	table := curveTable(&report.Curve{Cells: []report.CurveCell{
		{Cell: "a", At: []int{1, 7}, Median: report.Numbers{10, 70}},
		{Cell: "b", At: []int{1, 4, 7, 10}, Median: report.Numbers{100, 400, 700, 1000}},
	}})
	var got [][]string
	for _, l := range table.Groups[0].Lines {
		got = append(got, l.Cells)
	}
	want := [][]string{{"1", "10", "100"}, {"4", "–", "400"}, {"7", "70", "700"}, {"10", "–", "1,000"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestCurveOfSeconds checks that a figure says what its values are of, and that its positions are seconds.
func TestCurveOfSeconds(t *testing.T) {
	one := report.Numbers{1000, 1200}
	d := &report.Document{Curves: []report.Curve{{
		Metric: "load.per_second.rate", Title: "transactions per second", Unit: "1/s", PerSecond: true,
		Cells: []report.CurveCell{{Cell: "a", At: []int{1, 2}, Median: one, Low: one, High: one}},
	}}}
	all := curves(d)
	if len(all) != 1 || all[0].Title != "transactions per second, second by second" {
		t.Fatalf("figures %+v", all)
	}
	for _, want := range []string{"transactions per second by second", "k/s"} {
		if !strings.Contains(all[0].Panels[0].body, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if name := all[0].Numbers.Columns[0].Name; name != "second" {
		t.Errorf("the first column is %q", name)
	}
}
