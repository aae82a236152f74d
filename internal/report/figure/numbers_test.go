package figure

import (
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
