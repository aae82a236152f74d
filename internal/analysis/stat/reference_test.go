package stat_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// A number is a float64 that JSON may leave null, for "there is none".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

func floats(x []number) []float64 {
	f := make([]float64, len(x))
	for i, v := range x {
		f[i] = float64(v)
	}
	return f
}

// reference is what testdata/reference.R wrote.
type reference struct {
	SignedRank []rankCase `json:"signed_rank"`
	RankSum    []rankCase `json:"rank_sum"`
	Quantile   []struct {
		X, P, Want []number
	}
	QuantileInterval []struct {
		X                []number
		P, Confidence    float64
		OK               bool
		Low, High, Level number
	} `json:"quantile_interval"`
	Holm []struct {
		P, Want []number
	}
	Trend []struct {
		X      []number
		Rho, P float64
	}
	Autocorrelation []struct {
		X    []number
		Lag  int
		R, P float64
	}
}

type rankCase struct {
	Name                          string
	X, Y                          []number
	Confidence                    float64
	Estimate, Low, High, Level, P number
}

// rankResult is what SignedRank and RankSum have in common.
type rankResult struct {
	Estimate, Low, High, Level, P float64
	OK                            bool
}

func (c rankCase) want() rankResult {
	w := rankResult{float64(c.Estimate), float64(c.Low), float64(c.High), float64(c.Level), float64(c.P), true}
	if math.IsNaN(w.Low) {
		w.OK, w.Level = false, 0
	}
	return w
}

// near allows for the last digits of another implementation.
var near = cmp.Options{cmpopts.EquateApprox(1e-11, 1e-12), cmpopts.EquateNaNs()}

func loadReference(t *testing.T) reference {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("testdata/reference.json: %v", err)
	}
	return r
}

func TestSignedRankReference(t *testing.T) {
	for _, c := range loadReference(t).SignedRank {
		t.Run(c.Name, func(t *testing.T) {
			got := stat.SignedRank(floats(c.X), c.Confidence)
			if got.N != len(c.X) {
				t.Errorf("N = %d, want %d", got.N, len(c.X))
			}
			diff(t, c.want(), rankResult{got.Estimate, got.Interval.Low, got.Interval.High, got.Interval.Level, got.P, got.OK})
		})
	}
}

func TestRankSumReference(t *testing.T) {
	for _, c := range loadReference(t).RankSum {
		t.Run(c.Name, func(t *testing.T) {
			got := stat.RankSum(floats(c.X), floats(c.Y), c.Confidence)
			if got.N != len(c.X) || got.M != len(c.Y) {
				t.Errorf("N, M = %d, %d, want %d, %d", got.N, got.M, len(c.X), len(c.Y))
			}
			diff(t, c.want(), rankResult{got.Estimate, got.Interval.Low, got.Interval.High, got.Interval.Level, got.P, got.OK})
		})
	}
}

func TestQuantileReference(t *testing.T) {
	for _, c := range loadReference(t).Quantile {
		for i, p := range floats(c.P) {
			got, want := stat.Quantile(floats(c.X), p), float64(c.Want[i])
			if !cmp.Equal(got, want, near) {
				t.Errorf("n=%d: Quantile(%v) = %v, want %v", len(c.X), p, got, want)
			}
		}
	}
}

func TestQuantileIntervalReference(t *testing.T) {
	for _, c := range loadReference(t).QuantileInterval {
		got, ok := stat.QuantileInterval(floats(c.X), c.P, c.Confidence)
		want := stat.Interval{Low: float64(c.Low), High: float64(c.High), Level: float64(c.Level)}
		if !c.OK {
			want.Level = 0
		}
		if ok != c.OK || !cmp.Equal(want, got, near) {
			t.Errorf("n=%d: QuantileInterval(%v, %v) = %v, %v, want %v, %v", len(c.X), c.P, c.Confidence, got, ok, want, c.OK)
		}
		if c.P != 0.5 {
			continue
		}
		if m, mok := stat.MedianInterval(floats(c.X), c.Confidence); mok != ok || !cmp.Equal(m, got, near) {
			t.Errorf("n=%d: MedianInterval(%v) = %v, %v, want %v, %v", len(c.X), c.Confidence, m, mok, got, ok)
		}
	}
}

func TestHolmReference(t *testing.T) {
	for _, c := range loadReference(t).Holm {
		p := floats(c.P)
		diff(t, floats(c.Want), stat.Holm(p))
		diff(t, floats(c.P), p) // untouched
	}
}

func TestTrendReference(t *testing.T) {
	for _, c := range loadReference(t).Trend {
		rho, p := stat.Trend(floats(c.X))
		diff(t, []float64{c.Rho, c.P}, []float64{rho, p})
	}
}

func TestAutocorrelationReference(t *testing.T) {
	for _, c := range loadReference(t).Autocorrelation {
		r, p := stat.Autocorrelation(floats(c.X), c.Lag)
		diff(t, []float64{c.R, c.P}, []float64{r, p})
	}
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
