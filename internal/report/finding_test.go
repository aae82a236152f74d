package report

import (
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// A finding has the form that its interval and its verdict allow, and claims nothing else.
func TestFinding(t *testing.T) {
	duration := Metric{Unit: "s", Better: bench.Lower, Scale: bench.Ratio}
	rate := Metric{Unit: "1/s", Better: bench.Higher, Scale: bench.Ratio}
	size := Metric{Unit: "B", Better: bench.Lower, Scale: bench.Ratio}
	neither := Metric{Unit: "1", Better: bench.Neither, Scale: bench.Ratio}
	errs := Metric{Unit: "1", Better: bench.Lower, Scale: bench.Difference}
	for _, tt := range []struct {
		metric              Metric
		low, estimate, high float64
		verdict             analysis.Verdict
		shift               float64
		want                string
	}{
		{duration, 0.99, 1.001, 1.0171, analysis.Same, 0, "same (±1.8 %)"},
		{duration, 1, 1, 1, analysis.Same, 0, "same (±0.01 %)"},
		{duration, 1.091, 1.12, 1.149, analysis.Worse, 0, "12 % slower (9–15 %)"},
		{duration, 1.012, 1.03, 1.049, analysis.Worse, 0, "3 % slower (1.2–4.9 %)"},
		{duration, 0.80, 0.85, 0.9, analysis.Better, 0, "15 % faster (10–20 %)"},
		{duration, 1.007, 1.08, 1.13, analysis.Worse, 0, "8 % slower (0.7–13 %)"},
		{duration, 0.87, 0.94, 0.9996, analysis.Better, 0, "6 % faster (0.04–13 %)"},
		{duration, 1.0004, 1.03, 1.049, analysis.Worse, 0, "3 % slower (0.04–4.9 %)"},
		{duration, 500, 635, 846, analysis.Worse, 0.312, "+312 ms (500–850×)"},
		{duration, 0.21, 0.25, 0.31, analysis.Better, -0.003, "−3 ms (3.2–4.8× faster)"},
		{duration, 1.2, 2.5, 6, analysis.Worse, -0.001, "1.2–6.0× slower"},
		{rate, 0.86, 0.88, 0.91, analysis.Worse, 0, "12 % slower (9–14 %)"},
		{rate, 0.21, 0.25, 0.31, analysis.Worse, -30, "−30 /s (3.2–4.8× slower)"},
		{rate, 0.8, 0.95, 1.2, analysis.Unclear, 0, "at most 20 % slower"},
		{rate, 0.45, 0.95, 1.2, analysis.Unclear, 0, "unknown (±55 %)"},
		{duration, 0.5, 1.01, 1.24, analysis.Unclear, 0, "at most 24 % slower"},
		{duration, 0.92, 0.96, 1.0004, analysis.Unclear, 0, "at most 1 % slower"},
		{duration, 0.9, 1.01, 1.6, analysis.Unclear, 0, "unknown (±60 %)"},
		{duration, 1.02, 1.12, 1.24, analysis.Unclear, 0, "+2 to +24 %, not confirmed"},
		{duration, 0.931, 0.95, 0.99, analysis.Unclear, 0, "−6.9 to −1.0 %, not confirmed"},
		{duration, 1.0071, 1.08, 1.16, analysis.Unclear, 0, "+0.7 to +16 %, not confirmed"},
		{duration, 0.82, 0.9, 0.9996, analysis.Unclear, 0, "−18 to −0.04 %, not confirmed"},
		{duration, 28, 44, 73, analysis.Unclear, 0, "28–73×, not confirmed"},
		{size, 1.09, 1.12, 1.15, analysis.Worse, 0, "12 % more (9–15 %)"},
		{size, 0.9, 1.0, 1.05, analysis.Unclear, 0, "at most 5 % more"},
		{neither, 0.9, 1.0, 1.05, analysis.Unclear, 0, "within ±10 %"},
		{neither, 1.09, 1.12, 1.15, analysis.Different, 0, "12 % more (9–15 %)"},
		{duration, 1.2, 1.3, 1.4, analysis.Unreliable, 0, "unreliable: +20 to +40 %"},
		{errs, 1, 2, 4, analysis.Worse, 0, "2 more (1–4)"},
		{errs, -1, 0, 3, analysis.Unclear, 0, "at most 3 more"},
		{errs, 0, 0, 0, analysis.Same, 0, "same (±0)"},
	} {
		e := &Effect{
			Scale: tt.metric.Scale, Pairs: 20, Low: &tt.low, Estimate: &tt.estimate, High: &tt.high, Verdict: string(tt.verdict),
		}
		if tt.shift != 0 {
			e.Shift = &Shift{Estimate: tt.shift}
		}
		one := 1.0
		value := map[string]float64{"s": 0.001, "1/s": 40}[tt.metric.Unit]
		got := tt.metric.finding(&Row{N: 20}, &Row{N: 20, Median: &one, Effect: e},
			newScale(unitName(tt.metric.Unit), []*float64{&value}))
		if got.Text != tt.want {
			t.Errorf("[%v, %v, %v] %s: %q, want %q", tt.low, tt.estimate, tt.high, tt.verdict, got.Text, tt.want)
		}
		rejected := tt.verdict == analysis.Worse || tt.verdict == analysis.Better || tt.verdict == analysis.Different
		if claims := got.Kind == Differs; claims != rejected {
			t.Errorf("%q claims a difference: %t, and the test rejects: %t", got.Text, claims, rejected)
		}
	}
}
