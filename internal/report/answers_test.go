package report

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// Values that have no ratio are told as values: nothing is said to have none.
func TestAnswerWithoutRatio(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	rows := []Row{
		{Cell: "runc", N: 10, Median: value(2e-3)},
		{Cell: "docker", N: 10, Median: value(0), Effect: &Effect{Scale: bench.Ratio, Verdict: "unclear"}},
	}
	m := Metric{Unit: "s", Conditions: []Condition{{Rows: rows}}}
	const want = "docker and runc cannot be compared in any block: 0 ms against 2 ms"
	if got := answer(&m, &rows[0], &rows[1]); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Where there is no interval, the reason stands for it.
func TestAnswerWithoutInterval(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	rows := []Row{
		{Cell: "runc", N: 4, Median: value(1e-3)},
		{Cell: "docker", N: 4, Median: value(1.1e-3), Effect: &Effect{Scale: bench.Ratio, Verdict: "unclear", Pairs: 4, Estimate: value(1.1), Smallest: 0.05}},
	}
	m := Metric{Unit: "s", Conditions: []Condition{{Rows: rows}}}
	const want = "docker is unclear (margin ±5 %): +10.0 %, only 4 pairs"
	if got := answer(&m, &rows[0], &rows[1]); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
