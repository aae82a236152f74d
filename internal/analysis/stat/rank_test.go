package stat_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

func TestSignedRankSmall(t *testing.T) {
	nan := math.NaN()
	none := stat.Interval{Low: nan, High: nan}
	tests := []struct {
		name string
		d    []float64
		want stat.Paired
	}{
		{"nothing", nil, stat.Paired{Estimate: nan, Interval: none, P: nan}},
		{"one", []float64{3}, stat.Paired{N: 1, Estimate: 3, Interval: none, P: 1}},
		// The smallest p-value of 5 pairs is 2/32: no interval at 95 %.
		{"five", []float64{1, 2, 3, 4, 5}, stat.Paired{N: 5, Estimate: 3, Interval: none, P: 0.0625}},
		// Of 6, 2/64: the interval is the range and its level 1 − 2/64.
		{"six", []float64{6, 5, 4, 3, 2, 1}, stat.Paired{
			N: 6, Estimate: 3.5, Interval: stat.Interval{Low: 1, High: 6, Level: 0.96875}, OK: true, P: 0.03125,
		}},
		// One zero among six: it alone is one Walsh average against the effect, P(T ≤ 1) = 2/64.
		{"a zero", []float64{0, 1, 2, 3, 4, 5}, stat.Paired{
			N: 6, Estimate: 2.5, Interval: stat.Interval{Low: 0, High: 5, Level: 0.96875}, OK: true, P: 0.0625,
		}},
		{"zeros", make([]float64, 6), stat.Paired{N: 6, Interval: stat.Interval{Level: 0.96875}, OK: true, P: 1}},
		{"NaN", []float64{1, 2, 3, 4, 5, 6, nan}, stat.Paired{N: 7, Estimate: nan, Interval: none, P: nan}},
		{"infinite", []float64{1, 2, 3, 4, 5, 6, math.Inf(-1)}, stat.Paired{N: 7, Estimate: nan, Interval: none, P: nan}},
		{"sums overflow", []float64{math.MaxFloat64, 1}, stat.Paired{N: 2, Estimate: nan, Interval: none, P: nan}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { diff(t, tt.want, stat.SignedRank(tt.d, 0.95)) })
	}
}

func TestRankSumSmall(t *testing.T) {
	nan := math.NaN()
	none := stat.Interval{Low: nan, High: nan}
	tests := []struct {
		name string
		x, y []float64
		want stat.Shift
	}{
		{"nothing", nil, []float64{1}, stat.Shift{M: 1, Estimate: nan, Interval: none, P: nan}},
		{"one each", []float64{3}, []float64{1}, stat.Shift{N: 1, M: 1, Estimate: 2, Interval: none, P: 1}},
		// 4 over 8 is 70 arrangements; 2/70 is below 5 %.
		{"four each", []float64{11, 12, 13, 14}, []float64{1, 2, 3, 4}, stat.Shift{
			N: 4, M: 4, Estimate: 10, Interval: stat.Interval{Low: 7, High: 13, Level: 1 - 2.0/70}, OK: true, P: 2.0 / 70,
		}},
		{"NaN", []float64{nan}, []float64{1}, stat.Shift{N: 1, M: 1, Estimate: nan, Interval: none, P: nan}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { diff(t, tt.want, stat.RankSum(tt.x, tt.y, 0.95)) })
	}
}

func TestNoSuchConfidence(t *testing.T) {
	d := normal(100, 1)
	for _, c := range []float64{-1, 0, 1, 2, math.NaN()} {
		if r := stat.SignedRank(d, c); r.OK || math.IsNaN(r.P) {
			t.Errorf("SignedRank(d, %v) = %+v, want a p-value and no interval", c, r)
		}
		if r := stat.RankSum(d, d, c); r.OK || math.IsNaN(r.P) {
			t.Errorf("RankSum(d, d, %v) = %+v, want a p-value and no interval", c, r)
		}
		if i, ok := stat.MedianInterval(d, c); ok {
			t.Errorf("MedianInterval(d, %v) = %v, want none", c, i)
		}
	}
}

// The exact distribution hands over to the approximation at 50: the level that
// the next n achieves must not jump.
func TestApproximationContinuesExact(t *testing.T) {
	for _, c := range []float64{0.9, 0.95, 0.99} {
		a, b := stat.SignedRank(normal(50, 1), c), stat.SignedRank(normal(51, 1), c)
		if math.Abs(a.Interval.Level-b.Interval.Level) > 0.002 {
			t.Errorf("signed-rank level at 50 and 51: %v, %v", a.Interval.Level, b.Interval.Level)
		}
		y := normal(50, 2)
		e, f := stat.RankSum(normal(50, 1), y, c), stat.RankSum(normal(51, 1), y, c)
		if math.Abs(e.Interval.Level-f.Interval.Level) > 0.002 {
			t.Errorf("rank-sum level at 50 and 51: %v, %v", e.Interval.Level, f.Interval.Level)
		}
	}
}

// Doubling and adding multiples of a power of two are exact, so the results
// must follow to the last bit.
func TestSignedRankFollowsItsData(t *testing.T) {
	for _, n := range []int{6, 13, 50, 51, 200} {
		d := onGrid(normal(n, uint64(n)))
		base := stat.SignedRank(d, 0.95)

		shifted := stat.SignedRank(each(d, func(v float64) float64 { return v + 8 }), 0.95)
		if shifted.Estimate != base.Estimate+8 || shifted.Interval.Low != base.Interval.Low+8 ||
			shifted.Interval.High != base.Interval.High+8 {
			t.Errorf("n=%d: shifted by 8: %+v, was %+v", n, shifted, base)
		}

		scaled := stat.SignedRank(each(d, func(v float64) float64 { return 4 * v }), 0.95)
		want := base
		want.Estimate *= 4
		want.Interval.Low *= 4
		want.Interval.High *= 4
		if scaled != want {
			t.Errorf("n=%d: four times: %+v, want %+v", n, scaled, want)
		}

		negated := stat.SignedRank(each(d, func(v float64) float64 { return -v }), 0.95)
		want = base
		want.Estimate = -base.Estimate
		want.Interval.Low, want.Interval.High = -base.Interval.High, -base.Interval.Low
		if negated != want {
			t.Errorf("n=%d: negated: %+v, want %+v", n, negated, want)
		}

		if r := stat.SignedRank(shuffled(d), 0.95); r != base {
			t.Errorf("n=%d: shuffled: %+v, was %+v", n, r, base)
		}
	}
}

func TestRankSumFollowsItsData(t *testing.T) {
	for _, n := range []int{4, 13, 50, 90} {
		x, y := onGrid(normal(n, 1)), onGrid(normal(n+3, 2))
		base := stat.RankSum(x, y, 0.95)

		shifted := stat.RankSum(each(x, func(v float64) float64 { return v + 8 }), y, 0.95)
		if shifted.Estimate != base.Estimate+8 || shifted.Interval.Low != base.Interval.Low+8 ||
			shifted.Interval.High != base.Interval.High+8 {
			t.Errorf("n=%d: shifted by 8: %+v, was %+v", n, shifted, base)
		}

		swapped := stat.RankSum(y, x, 0.95)
		want := stat.Shift{
			N: base.M, M: base.N, Estimate: -base.Estimate, OK: true, P: base.P,
			Interval: stat.Interval{Low: -base.Interval.High, High: -base.Interval.Low, Level: base.Interval.Level},
		}
		if !cmp.Equal(swapped, want, near) { // near: the level is computed for (m, n) and (n, m)
			t.Errorf("n=%d: swapped: %+v, want %+v", n, swapped, want)
		}

		if r := stat.RankSum(shuffled(x), shuffled(y), 0.95); r != base {
			t.Errorf("n=%d: shuffled: %+v, was %+v", n, r, base)
		}
	}
}

func TestInputsAreNotModified(t *testing.T) {
	x, y := normal(60, 1), normal(60, 2)
	wantX, wantY := slices.Clone(x), slices.Clone(y)
	stat.SignedRank(x, 0.95)
	stat.RankSum(x, y, 0.95)
	stat.PairsFor(x, 0.1, 0.95)
	stat.Quantile(x, 0.9)
	stat.MedianInterval(x, 0.95)
	stat.Trend(x)
	stat.Autocorrelation(x, 1)
	stat.Bimodal(x)
	stat.Outliers(x)
	if !slices.Equal(x, wantX) || !slices.Equal(y, wantY) {
		t.Error("an input was modified")
	}
}

func TestMinPairs(t *testing.T) {
	tests := []struct {
		confidence float64
		family     int
		want       int
	}{
		{0.95, 0, 6},
		{0.95, 1, 6},
		{0.95, 2, 7},
		{0.95, 4, 8},
		{0.95, 12, 9},
		{0.95, 100, 12},
		{0.99, 1, 8},
		{0.9, 1, 5},
		{0.5, 1, 2},
		{0.96875, 1, 6},
		{0, 1, 0},
		{1, 1, 0},
		{math.NaN(), 1, 0},
	}
	for _, tt := range tests {
		if got := stat.MinPairs(tt.confidence, tt.family); got != tt.want {
			t.Errorf("MinPairs(%v, %d) = %d, want %d", tt.confidence, tt.family, got, tt.want)
		}
	}
	// What it promises: that many pairs of one sign reject, one fewer do not.
	for family := 1; family < 40; family++ {
		n := stat.MinPairs(0.95, family)
		p := slices.Repeat([]float64{1}, family)
		p[0] = stat.SignedRank(slices.Repeat([]float64{1}, n), 0.95).P
		if got := stat.Holm(p)[0]; got > 0.05 {
			t.Errorf("family of %d: %d pairs have the adjusted p %v", family, n, got)
		}
		p[0] = stat.SignedRank(slices.Repeat([]float64{1}, n-1), 0.95).P
		if got := stat.Holm(p)[0]; got <= 0.05 {
			t.Errorf("family of %d: already %d pairs have the adjusted p %v", family, n-1, got)
		}
	}
}

func TestMinEach(t *testing.T) {
	for _, tt := range []struct {
		confidence   float64
		family, want int
	}{
		{0.95, 0, 4},
		{0.95, 1, 4},
		{0.95, 2, 5},
		{0.95, 6, 5},
		{0.95, 7, 6},
		{0.95, 23, 6},
		{0.95, 24, 7},
		{0.99, 1, 5},
		{0.5, 1, 2},
		{0, 1, 0},
		{1, 1, 0},
		{math.NaN(), 1, 0},
	} {
		if got := stat.MinPerSide(tt.confidence, tt.family); got != tt.want {
			t.Errorf("MinEach(%v, %d) = %d, want %d", tt.confidence, tt.family, got, tt.want)
		}
	}
	// What it promises: that many of each, all of one above all of the other, reject; one fewer do not.
	for family := 1; family < 40; family++ {
		n := stat.MinPerSide(0.95, family)
		for each, rejects := range map[int]bool{n: true, n - 1: false} {
			p := slices.Repeat([]float64{1}, family)
			p[0] = stat.RankSum(slices.Repeat([]float64{2}, each), slices.Repeat([]float64{1}, each), 0.95).P
			if got := stat.Holm(p)[0]; (got <= 0.05) != rejects {
				t.Errorf("family of %d: %d of each have the adjusted p %v", family, each, got)
			}
		}
	}
}

func TestPairsFor(t *testing.T) {
	d := normal(20, 1)
	half := stat.SignedRank(d, 0.95).Interval.HalfWidth()
	tests := []struct {
		name      string
		d         []float64
		halfWidth float64
		low, high int
	}{
		{"no interval yet", d[:5], 0.1, 0, 0},
		{"no width", d, 0, 0, 0},
		{"width is not a number", d, math.NaN(), 0, 0},
		{"out of reach", d, 1e-30, 0, 0},
		{"reached", d, half, 20, 20},
		{"all the same", make([]float64, 8), 0.1, 8, 8},
		{"just missed", d, half * 0.9999, 21, 21},
		// The level of six is 96.9 %: 6 · 4 · (1.960/2.154)² = 19.9, not 24.
		{"what a small sample achieves beyond is not paid for", []float64{1, 2, 3, 4, 5, 6}, 1.25, 20, 20},
		{"half the width needs four times the pairs", d, half / 2, 76, 81},
	}
	for _, tt := range tests {
		if got := stat.PairsFor(tt.d, tt.halfWidth, 0.95); got < tt.low || got > tt.high {
			t.Errorf("%s: PairsFor = %d, want %d to %d", tt.name, got, tt.low, tt.high)
		}
	}
}

// Over many pilots of 10 pairs, the median of the estimates must be near what
// it truly takes.
func TestPairsForIsAboutRight(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var estimates []float64
	for range 500 {
		d := make([]float64, 10)
		for i := range d {
			d[i] = r.NormFloat64()
		}
		estimates = append(estimates, float64(stat.PairsFor(d, 0.25, 0.95)))
	}
	var widths []float64
	const truth = 66 // the pairs that reach 0.25 half of the time, as the next lines verify
	for i := range 500 {
		widths = append(widths, stat.SignedRank(normal(truth, uint64(i)), 0.95).Interval.HalfWidth())
	}
	if w := stat.Median(widths); math.Abs(w-0.25) > 0.005 {
		t.Fatalf("the median half-width of %d pairs is %v, want 0.25", truth, w)
	}
	if m := stat.Median(estimates); m < 0.8*truth || m > 1.25*truth {
		t.Errorf("the median estimate is %v pairs, want about %v", m, truth)
	}
}

// FuzzSignedRank compares with the definition: all Walsh averages, sorted.
func FuzzSignedRank(f *testing.F) {
	f.Add([]byte{}, 0.95)
	f.Add(bytesOf(normal(20, 1)), 0.95)
	f.Add(bytesOf([]float64{0, 0, math.Copysign(0, -1), 5e-324, -5e-324, 1e300, -1e300}), 0.9)
	f.Add(bytesOf([]float64{1, 1, 1, 1, 1, 1, 1}), 0.95)
	f.Add(bytesOf([]float64{math.NaN(), math.Inf(1)}), 0.5)
	f.Fuzz(func(t *testing.T, b []byte, confidence float64) {
		d := floatsOf(b)
		r := stat.SignedRank(d, confidence)
		if math.IsNaN(r.Estimate) != math.IsNaN(r.P) || r.P < 0 || r.P > 1 {
			t.Fatalf("SignedRank(%v) = %+v", d, r)
		}
		if math.IsNaN(r.Estimate) {
			if r.OK {
				t.Fatalf("SignedRank(%v) = %+v: an interval of what is not a number", d, r)
			}
			return
		}
		if len(d) <= 60 {
			sums := walshSums(d)
			compareWithSorted(t, sums, 0.5, rankResult{r.Estimate, r.Interval.Low, r.Interval.High, r.Interval.Level, r.P, r.OK},
				confidence)
		}
	})
}

// FuzzRankSum compares with the definition: all differences, sorted.
func FuzzRankSum(f *testing.F) {
	f.Add([]byte{}, []byte{}, 0.95)
	f.Add(bytesOf(normal(20, 1)), bytesOf(normal(13, 2)), 0.95)
	f.Add(bytesOf([]float64{0, 0, 1, -1e300}), bytesOf([]float64{0, 1, 1, 5e-324}), 0.9)
	f.Fuzz(func(t *testing.T, a, b []byte, confidence float64) {
		x, y := floatsOf(a), floatsOf(b)
		if len(x) > 60 || len(y) > 60 {
			return
		}
		r := stat.RankSum(x, y, confidence)
		if math.IsNaN(r.Estimate) {
			return
		}
		compareWithSorted(t, differences(x, y), 1,
			rankResult{r.Estimate, r.Interval.Low, r.Interval.High, r.Interval.Level, r.P, r.OK}, confidence)
	})
}

// compareWithSorted checks a result against the sorted list of all pairs, each
// of which is worth the given factor.
func compareWithSorted(t *testing.T, all []float64, factor float64, r rankResult, confidence float64) {
	t.Helper()
	n := len(all)
	if want := (all[(n-1)/2] + all[n/2]) / 2 * factor; r.Estimate != want {
		t.Fatalf("estimate %v, want %v", r.Estimate, want)
	}
	if !r.OK {
		return
	}
	if !(r.Low <= r.Estimate && r.Estimate <= r.High) || r.Level < confidence-1e-9 {
		t.Fatalf("%+v at %v: out of order, or below the level", r, confidence)
	}
	low, _ := slices.BinarySearchFunc(all, r.Low, func(v, w float64) int { return compare(v*factor, w) })
	high, _ := slices.BinarySearchFunc(all, r.High, func(v, w float64) int { return compare(v*factor, w) })
	if low == n || high == n || all[low]*factor != r.Low || all[high]*factor != r.High {
		t.Fatalf("%+v: an end is no pair", r)
	}
	if r.Low == 0 || r.High == 0 {
		return // half of the smallest float64 is 0 too; see TestTestAndIntervalAgree for true zeros
	}
	if excluded := r.Low > 0 || r.High < 0; excluded != (r.P <= (1-r.Level)*(1+1e-9)) {
		t.Fatalf("%+v: test and interval disagree", r)
	}
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func walshSums(d []float64) []float64 {
	var all []float64
	for i := range d {
		for j := i; j < len(d); j++ {
			all = append(all, d[i]+d[j])
		}
	}
	slices.Sort(all)
	return all
}

func differences(x, y []float64) []float64 {
	var all []float64
	for _, v := range x {
		for _, w := range y {
			all = append(all, v-w)
		}
	}
	slices.Sort(all)
	return all
}

// The agreement of test and interval, for data with many ties and zeros.
func TestTestAndIntervalAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 5000 {
		d := make([]float64, 6+r.IntN(60))
		for i := range d {
			d[i] = math.Round(2*r.NormFloat64() + 0.8)
		}
		p := stat.SignedRank(d, 0.95)
		if excluded := !p.Interval.Contains(0); excluded != (p.P <= 0.05) {
			t.Fatalf("SignedRank(%v) = %+v: test and interval disagree", d, p)
		}
		s := stat.RankSum(d[:len(d)/2+1], d[len(d)/2:], 0.9)
		if excluded := s.OK && !s.Interval.Contains(0); excluded != (s.P <= 0.1) {
			t.Fatalf("RankSum of halves of %v = %+v: test and interval disagree", d, s)
		}
	}
}

// normal returns n standard normal values of the given seed.
func normal(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// onGrid rounds to multiples of 2⁻²⁰, so that shifting loses nothing.
func onGrid(x []float64) []float64 {
	return each(x, func(v float64) float64 { return math.Round(v*(1<<20)) / (1 << 20) })
}

func each(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

func shuffled(x []float64) []float64 {
	y := slices.Clone(x)
	rand.New(rand.NewPCG(5, 5)).Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
	return y
}

func bytesOf(x []float64) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func floatsOf(b []byte) []float64 {
	var x []float64
	for ; len(b) >= 8; b = b[8:] {
		x = append(x, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return x
}

func BenchmarkSignedRank(b *testing.B) {
	for _, n := range []int{10, 50, 100, 1000, 10_000} {
		d := normal(n, 1)
		b.Run(size(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stat.SignedRank(d, 0.95)
			}
		})
	}
}

func BenchmarkRankSum(b *testing.B) {
	for _, n := range []int{10, 50, 100, 1000, 10_000} {
		x, y := normal(n, 1), normal(n, 2)
		b.Run(size(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stat.RankSum(x, y, 0.95)
			}
		})
	}
}
