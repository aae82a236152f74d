package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

func TestQuantileEdges(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name string
		x    []float64
		p    float64
		want float64
	}{
		{"nothing", nil, 0.5, nan},
		{"below 0", []float64{1}, -0.1, nan},
		{"above 1", []float64{1}, 1.1, nan},
		{"p is not a number", []float64{1}, nan, nan},
		{"a value is not a number", []float64{1, nan}, 0.5, nan},
		{"infinity is a value", []float64{1, 2, inf}, 0.5, 2},
		{"two infinities", []float64{1, inf, inf}, 0.75, inf},
		{"even", []float64{4, 1, 3, 2}, 0.5, 2.5},
	}
	for _, tt := range tests {
		if got := stat.Quantile(tt.x, tt.p); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%s: Quantile(%v, %v) = %v, want %v", tt.name, tt.x, tt.p, got, tt.want)
		}
	}
}

func TestMedianIntervalNeedsSix(t *testing.T) {
	for n := range 12 {
		x := normal(n, 1)
		i, ok := stat.MedianInterval(x, 0.95)
		if ok != (n >= 6) {
			t.Errorf("n=%d: MedianInterval says %v", n, ok)
		}
		if ok && !i.Contains(stat.Median(x)) {
			t.Errorf("n=%d: %v does not contain the median %v", n, i, stat.Median(x))
		}
	}
	if _, ok := stat.MedianInterval(append(normal(10, 1), math.NaN()), 0.95); ok {
		t.Error("MedianInterval of values that are not numbers")
	}
}

func TestTrendEdges(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name   string
		x      []float64
		rho, p float64
	}{
		{"two", []float64{1, 2}, nan, nan},
		{"NaN", []float64{1, nan, 3}, nan, nan},
		{"constant", []float64{2, 2, 2, 2}, 0, 1},
		{"up", []float64{1, 2, 3}, 1, 1.0 / 3}, // 2 of 6 orders
		{"down", []float64{4, 3, 2, 1}, -1, 1.0 / 12},
	}
	for _, tt := range tests {
		rho, p := stat.Trend(tt.x)
		diff(t, []float64{tt.rho, tt.p}, []float64{rho, p})
	}
}

func TestAutocorrelationEdges(t *testing.T) {
	for _, lag := range []int{-1, 0, 5} {
		if r, p := stat.Autocorrelation(normal(10, 1), lag); !math.IsNaN(r) || !math.IsNaN(p) {
			t.Errorf("lag %d of 10: %v, %v, want NaN", lag, r, p)
		}
	}
	if r, p := stat.Autocorrelation(make([]float64, 10), 1); r != 0 || p != 1 {
		t.Errorf("constant: %v, %v, want 0, 1", r, p)
	}
	up, _ := stat.Autocorrelation([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 1)
	huge, _ := stat.Autocorrelation([]float64{1e300, 2e300, 3e300, 4e300, 5e300, 6e300, 7e300, 8e300}, 1)
	if math.Abs(up-huge) > 1e-12 {
		t.Errorf("r = %v, and %v in other units", up, huge)
	}
}

// falseAlarms returns how often alarm is raised for samples of n values.
func falseAlarms(n, repetitions int, draw func(*rand.Rand) float64, alarm func([]float64) bool) float64 {
	r := rand.New(rand.NewPCG(uint64(n), 42))
	x := make([]float64, n)
	var alarms int
	for range repetitions {
		for i := range x {
			x[i] = draw(r)
		}
		if alarm(x) {
			alarms++
		}
	}
	return float64(alarms) / float64(repetitions)
}

func TestTrendAndAutocorrelationFalseAlarms(t *testing.T) {
	for _, n := range []int{6, 10, 20, 60} {
		rate := falseAlarms(n, 10_000, (*rand.Rand).NormFloat64, func(x []float64) bool {
			_, p := stat.Trend(x)
			return p <= 0.05
		})
		if rate < 0.025 || rate > 0.065 {
			t.Errorf("Trend, n=%d: %.3f of independent samples, want about 0.05", n, rate)
		}
		rate = falseAlarms(n, 10_000, (*rand.Rand).NormFloat64, func(x []float64) bool {
			_, p := stat.Autocorrelation(x, 1)
			return p <= 0.05
		})
		if rate < 0.025 || rate > 0.065 {
			t.Errorf("Autocorrelation, n=%d: %.3f of independent samples, want about 0.05", n, rate)
		}
	}
}

func TestBimodalFalseAlarms(t *testing.T) {
	shapes := []struct {
		name  string
		draw  func(*rand.Rand) float64
		limit float64
	}{
		{"normal", (*rand.Rand).NormFloat64, 0.01},
		{"uniform", (*rand.Rand).Float64, 0.01},
		{"exponential", (*rand.Rand).ExpFloat64, 0.02},
		{"normal, rounded to its standard deviation", func(r *rand.Rand) float64 { return math.Round(r.NormFloat64()) }, 0.01},
		{"5 % outliers", func(r *rand.Rand) float64 {
			if r.Float64() < 0.05 {
				return 10 * r.NormFloat64()
			}
			return r.NormFloat64()
		}, 0.01},
	}
	for _, s := range shapes {
		for _, n := range []int{20, 30, 50, 100, 200} {
			rate := falseAlarms(n, 4000, s.draw, func(x []float64) bool {
				_, clear := stat.Bimodal(x)
				return clear
			})
			if rate > s.limit {
				t.Errorf("%s, n=%d: %.4f of the samples are called bimodal, want at most %v", s.name, n, rate, s.limit)
			}
		}
	}
}

func TestBimodalFindsGroups(t *testing.T) {
	for _, tt := range []struct {
		n        int
		distance float64 // of the modes, in standard deviations
		share    float64 // of values in the upper mode
		atLeast  float64 // of samples are found
	}{
		{20, 8, 0.5, 0.95}, {30, 8, 0.5, 0.99}, {100, 6, 0.5, 0.99}, {100, 6, 0.25, 0.98}, {200, 6, 0.75, 0.99},
	} {
		rate := falseAlarms(tt.n, 1000, func(r *rand.Rand) float64 {
			v := r.NormFloat64()
			if r.Float64() < tt.share {
				v += tt.distance
			}
			return v
		}, func(x []float64) bool {
			_, clear := stat.Bimodal(x)
			return clear
		})
		if rate < tt.atLeast {
			t.Errorf("%+v: found in %.3f", tt, rate)
		}
	}
}

func TestBimodalEdges(t *testing.T) {
	if score, clear := stat.Bimodal(make([]float64, 30)); score != 0 || clear {
		t.Errorf("constant: %v, %v", score, clear)
	}
	if score, clear := stat.Bimodal(normal(11, 1)); !math.IsNaN(score) || clear {
		t.Errorf("11 values: %v, %v", score, clear)
	}
	two := slices.Concat(slices.Repeat([]float64{7}, 20), slices.Repeat([]float64{8}, 20))
	if _, clear := stat.Bimodal(two); clear {
		t.Error("two adjacent multiples of the resolution are called bimodal")
	}
}

func TestOutliers(t *testing.T) {
	tests := []struct {
		name string
		x    []float64
		want []int
	}{
		{"nothing", nil, nil},
		{"three", []float64{1, 1, 100}, nil},
		{"none", []float64{1, 2, 3, 4, 5, 6}, nil},
		{"both ends", []float64{-50, 10, 11, 12, 13, 14, 90}, []int{0, 6}},
		{"one among equals", []float64{5, 5, 5, 5, 9, 5, 5, 5, 5}, []int{4}},
		{"many among equals", []float64{5, 5, 5, 5, 5, 6, 6, 6, 6}, nil},
		{"all the same", []float64{5, 5, 5, 5, 5}, nil},
		{"NaN", []float64{1, 2, 3, 4, math.NaN()}, nil},
	}
	for _, tt := range tests {
		if got := stat.Outliers(tt.x); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Outliers(%v) = %v, want %v", tt.name, tt.x, got, tt.want)
		}
	}
	rate := falseAlarms(100, 4000, (*rand.Rand).NormFloat64, func(x []float64) bool { return stat.Outliers(x) != nil })
	if rate > 0.12 {
		t.Errorf("%.3f of normal samples of 100 have outliers", rate)
	}
}

func size(n int) string { return "n=" + strconv.Itoa(n) }

func BenchmarkBimodal(b *testing.B) {
	x := normal(100, 1)
	b.ReportAllocs()
	for b.Loop() {
		stat.Bimodal(x)
	}
}

func BenchmarkMillion(b *testing.B) {
	x := normal(1_000_000, 1)
	b.Run("Quantile", func(b *testing.B) {
		for b.Loop() {
			stat.Quantile(x, 0.99)
		}
	})
	b.Run("QuantileInterval", func(b *testing.B) {
		for b.Loop() {
			stat.QuantileInterval(x, 0.99, 0.95)
		}
	})
}

// The interval of a mean is that of Student's t: of 1, 2, 3, 4, 5 it is 3 ± 2.776 · √(2.5/5).
func TestMean(t *testing.T) {
	mean, i, ok := stat.Mean([]float64{5, 1, 4, 2, 3}, 0.95)
	if !ok || mean != 3 || math.Abs(i.High-4.963) > 0.001 || math.Abs(i.Low-1.037) > 0.001 {
		t.Errorf("%v %v, %v", mean, i, ok)
	}
	if _, i, ok := stat.Mean([]float64{7, 7, 7}, 0.95); !ok || i.Low != 7 || i.High != 7 {
		t.Errorf("without spread: %v, %v", i, ok)
	}
	for _, x := range [][]float64{nil, {1}, {1, 2}, {1, 2, math.Inf(1)}, {1, 2, math.NaN()}, {-1e300, 1e300, 0}} {
		if _, i, ok := stat.Mean(x, 0.95); ok || !math.IsNaN(i.Low) {
			t.Errorf("%v has the interval %v", x, i)
		}
	}
}
