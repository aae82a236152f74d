package app_test

import (
	"math"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

// The parts of a trial add up, whatever else it has values of.
func TestMeasuredTime(t *testing.T) {
	metrics := []bench.Metric{{Name: "rate"}, {Name: "read.trial.measured"}, {Name: "trial.measured"}}
	for _, tt := range []struct {
		values []float64
		want   time.Duration
	}{
		{[]float64{7, 1.5, 0.5}, 2 * time.Second},
		{[]float64{7, math.NaN(), 0.5}, time.Second / 2},
		{nil, 0},
	} {
		if got := app.MeasuredTime(metrics, &bench.Sample{Values: tt.values}); got != tt.want {
			t.Errorf("values %v: %v, want %v", tt.values, got, tt.want)
		}
	}
}
