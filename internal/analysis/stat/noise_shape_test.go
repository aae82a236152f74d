package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

func TestSameSeedSameSeries(t *testing.T) {
	for _, noise := range All() {
		a, b := noise.Series(seeded(1), 50), noise.Series(seeded(1), 50)
		if !slices.Equal(a, b) {
			t.Errorf("%s: one seed gave two series", noise.Name)
		}
		if c := noise.Series(seeded(2), 50); slices.Equal(a, c) {
			t.Errorf("%s: two seeds gave one series", noise.Name)
		}
	}
}

// Each noise must be what it says, or the proofs prove nothing. The spread is
// the 84th percentile, which is 1 for a standard normal.
func TestNoiseIsWhatItSays(t *testing.T) {
	tests := map[string]struct{ spread, lag1, beyond4 float64 }{
		"normal":         {1, 0, 0.00006},
		"t3":             {1.197, 0, 0.028},
		"contaminated":   {1.06, 0, 0.0345},
		"autocorrelated": {1, 0.7, 0.00006},
	}
	for _, noise := range All() {
		want, ok := tests[noise.Name]
		if !ok {
			continue // drifting: see below
		}
		x := noise.Series(seeded(1), 200_000)
		lag1, _ := stat.Autocorrelation(x, 1)
		var beyond int
		for _, v := range x {
			if math.Abs(v) > 4 {
				beyond++
			}
		}
		share := float64(beyond) / float64(len(x))
		if s := stat.Quantile(x, 0.8413); math.Abs(s-want.spread) > 0.03 {
			t.Errorf("%s: spread %.3f, want %.3f", noise.Name, s, want.spread)
		}
		if math.Abs(lag1-want.lag1) > 0.01 {
			t.Errorf("%s: autocorrelation %.3f, want %.1f", noise.Name, lag1, want.lag1)
		}
		if math.Abs(share-want.beyond4) > 0.0015 {
			t.Errorf("%s: %.5f beyond 4, want %.5f", noise.Name, share, want.beyond4)
		}
	}
}

func TestDriftingMovesByFour(t *testing.T) {
	x := Drifting().Series(seeded(1), 100_000)
	first, last := stat.Median(x[:5000]), stat.Median(x[95_000:])
	if moved := math.Abs(last - first); math.Abs(moved-0.95*4) > 0.1 {
		t.Errorf("from the first to the last twentieth it moved by %.2f, want 3.8", moved)
	}
	if one := Drifting().Series(seeded(1), 1); len(one) != 1 || math.IsNaN(one[0]) {
		t.Errorf("a series of one: %v", one)
	}
}

func TestOrders(t *testing.T) {
	o := RandomBlocks(seeded(1), 4, 100)
	orders := map[[4]int]bool{}
	for block := range slices.Chunk(o, 4) {
		orders[[4]int(block)] = true
		if s := slices.Sorted(slices.Values(block)); !slices.Equal(s, []int{0, 1, 2, 3}) {
			t.Fatalf("block %v does not hold each cell once", block)
		}
	}
	if len(orders) < 20 {
		t.Errorf("%d different orders in 100 blocks, want nearly all 24", len(orders))
	}
	if got := OneAfterAnother(2, 3); !slices.Equal(got, Order{0, 0, 0, 1, 1, 1}) {
		t.Errorf("OneAfterAnother(2, 3) = %v", got)
	}
}

func TestMeasure(t *testing.T) {
	o := Order{1, 0, 0, 1}
	got := o.Measure([]float64{1, 2, 3, 4}, []float64{10, 20})
	if d := cmp.Diff([][]float64{{12, 13}, {21, 24}}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7461_7265)) }
