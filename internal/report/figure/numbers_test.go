package figure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// TestZone checks that a picture shows what is too small to matter, and nothing where the noise is above 10 %, which
// no one would call small.
func TestZone(t *testing.T) {
	low, estimate, high := 0.8, 1.1, 1.5
	for _, noisy := range []bool{false, true} {
		base := report.Row{Cell: "a", N: 9, Values: report.Numbers{1, 2}}
		other := report.Row{Cell: "b", N: 9, Values: report.Numbers{1, 2}, Effect: &report.Effect{
			Scale: bench.Ratio, Low: &low, Estimate: &estimate, High: &high, Smallest: 0.3, Noisy: noisy,
		}}
		m, c := report.Metric{Title: "time", Unit: "s"}, report.Condition{Baseline: "a"}
		p, ok := changesPanel(&m, &c, []*report.Row{&base, &other})
		if shaded := strings.Contains(p.body, string(zone)); !ok || shaded == noisy {
			t.Errorf("noisy %v: shaded %v", noisy, shaded)
		}
	}
}

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

// TestLongCurve checks that a curve of a long series says how much of it is drawn and in the table, and where all is.
func TestLongCurve(t *testing.T) {
	for length, want := range map[int][2]string{
		400: {"", "medians over the trials, at 9 of 400 positions; --json has all"},
		12_000: {
			"Drawn are 400 of 12,000 positions, evenly; tare export has all.",
			"medians over the trials, at 9 of 12,000 positions; --json has 400, and tare export has all",
		},
	} {
		one := report.CurveCell{Cell: "a"}
		for i := range 400 {
			one.At = append(one.At, i*length/400+1)
			one.Median, one.Low, one.High = append(one.Median, 1), append(one.Low, 1), append(one.High, 1)
		}
		c := report.Curve{Metric: "start", Length: length, Cells: []report.CurveCell{one}}
		f := curves(&report.Document{Curves: []report.Curve{c}})[0]
		if got := [2]string{f.Thinned, f.Numbers.Subtitle}; got != want {
			t.Errorf("%d positions: %q, want %q", length, got, want)
		}
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

// TestCheckpointsAreMarked checks that the seconds with a checkpoint are marked in the curves of the same part and
// condition, for each cell that had one.
func TestCheckpointsAreMarked(t *testing.T) {
	curve := func(metric, condition string, seconds ...float64) report.Curve {
		one := report.CurveCell{Cell: "a", At: []int{1, 2, 3}, Median: seconds, Low: seconds, High: seconds}
		return report.Curve{Metric: metric, Condition: condition, PerSecond: true, Cells: []report.CurveCell{one}}
	}
	rate := curve("write.per_second.rate", "c", 3, 1, 2)
	bars := func(beside ...report.Curve) int {
		f := curves(&report.Document{Curves: append([]report.Curve{rate}, beside...)})[0]
		without := curves(&report.Document{Curves: []report.Curve{rate}})[0]
		n := strings.Count(f.Panels[0].body, "<line") - strings.Count(without.Panels[0].body, "<line")
		if strings.Contains(f.Reading, checkpointReading) != (n > 0) {
			t.Errorf("%d bars, and the figure says: %s", n, f.Reading)
		}
		return n
	}
	for name, tt := range map[string]struct {
		beside report.Curve
		want   int
	}{
		"two seconds":       {curve("write.per_second.checkpoint", "c", 0, 0.2, 1), 2},
		"another part":      {curve("read.per_second.checkpoint", "c", 0, 0.2, 1), 0},
		"another condition": {curve("write.per_second.checkpoint", "d", 0, 0.2, 1), 0},
	} {
		if got := bars(tt.beside); got != tt.want {
			t.Errorf("%s: %d bars, want %d", name, got, tt.want)
		}
	}
}
