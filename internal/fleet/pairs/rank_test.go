package pairs

import (
	"math"
	"testing"
)

// TestBelowSum: the probabilities follow from areas and volumes.
func TestBelowSum(t *testing.T) {
	for _, c := range []struct {
		s    float64
		m    int
		want float64
	}{
		{0.3, 1, 0.3},
		{1, 2, 0.5},
		{0.5, 2, 0.125},
		{1.5, 2, 0.875},
		{1, 8, 1.0 / 40320},
		{1.5, 3, 0.5},
		{-1, 3, 0},
		{3, 3, 1},
		{15, 30, 0.5},
		{30, 60, 0.5},
		{30 - 1.959964*math.Sqrt(5), 60, 0.025},
	} {
		if got := belowSum(c.s, c.m); math.Abs(got-c.want) > 1e-6*max(c.want, 1e-3) {
			t.Errorf("%v of %d: %v, want %v", c.s, c.m, got, c.want)
		}
	}
	last := 0.0
	for s := 0.0; s <= 20; s += 0.01 {
		if p := belowSum(s, 20); p < last || p > 1 {
			t.Fatalf("the probability falls at %v: %v after %v", s, p, last)
		} else {
			last = p
		}
	}
}

func TestRelativeRanks(t *testing.T) {
	got := relativeRanks([]float64{5, 1, 5, 9})
	want := []float64{0.5, 0.125, 0.5, 0.875}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A link that was measured once can be no clearer than one among so many.
func TestFewValues(t *testing.T) {
	s := sample{own: []float64{9}}
	for i := range 99 {
		s.all = append(s.all, float64(i)/100)
	}
	s.all = append(s.all, 9)
	if p := s.p(); p < 0.01 || p > 0.03 {
		t.Errorf("p is %v", p)
	}
	low, high := s.interval()
	if low < 8 || low > 8.1 || high < 8.9 || high > 9 {
		t.Errorf("the interval is %v to %v, want about 8.03 to 8.97", low, high)
	}
}
