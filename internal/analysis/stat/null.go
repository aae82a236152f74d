package stat

import (
	"math"
	"math/bits"
	"sort"
	"sync"
)

// exactUpTo is the largest sample whose null distribution is counted out;
// beyond it the normal approximation is used.
const exactUpTo = 50

// A null is the distribution of a rank statistic where there is no effect. It
// takes the values 0 to total and is symmetric about total/2.
type null struct {
	total int
	lower func(c int) float64 // P(T ≤ c), for 0 ≤ c ≤ total/2
}

// twoSided returns the two-sided p-value of a statistic of c, where c is the
// smaller of the two tails' counts.
func (d null) twoSided(c int) float64 {
	if c > d.total/2 {
		return 1
	}
	return min(1, 2*d.lower(c))
}

// criticalRank returns the k for which the k-th smallest and the k-th largest of the
// total values enclose the interval of at least the given confidence, and the
// level that they achieve. It returns 0 where there is no such k.
func (d null) criticalRank(confidence float64) (k int, level float64) {
	if !validLevel(confidence) {
		return 0, 0
	}
	alpha := errorRate(confidence)
	k = sort.Search(d.total/2+1, func(c int) bool { return 2*d.lower(c) > alpha })
	if k == 0 {
		return 0, 0
	}
	return k, 1 - 2*d.lower(k-1)
}

// signedRankNull is the distribution of the Wilcoxon signed-rank statistic of
// n differences.
func signedRankNull(n int) null {
	total := n * (n + 1) / 2
	if n <= exactUpTo {
		return null{total, tabulated(signedRankTables()[n])}
	}
	sd := math.Sqrt(float64(n) * float64(n+1) * float64(2*n+1) / 24)
	return null{total, approximate(total, sd)}
}

// rankSumNull is the distribution of the Mann–Whitney statistic of samples of
// m and n.
func rankSumNull(m, n int) null {
	total := m * n
	if m <= exactUpTo && n <= exactUpTo {
		return null{total, tabulated(rankSumTable(m, n))}
	}
	sd := math.Sqrt(float64(m) * float64(n) * float64(m+n+1) / 12)
	return null{total, approximate(total, sd)}
}

func tabulated(table []float64) func(int) float64 {
	return func(c int) float64 { return table[c] }
}

// approximate is the normal approximation with continuity correction.
func approximate(total int, sd float64) func(int) float64 {
	mean := float64(total) / 2
	return func(c int) float64 { return normalLower((float64(c) + 0.5 - mean) / sd) }
}

// signedRankTables holds, for each n ≤ exactUpTo, the lower half of the
// cumulative distribution. All together are 90 kB and a millisecond of work.
var signedRankTables = sync.OnceValue(func() [][]float64 {
	tables := make([][]float64, exactUpTo+1)
	// ways[t] is the number of subsets of {1..n} whose sum is t: at most 2⁵⁰,
	// so that float64 counts them exactly.
	ways := make([]float64, exactUpTo*(exactUpTo+1)/2+1)
	ways[0] = 1
	for n := range tables {
		total := n * (n + 1) / 2
		for t := total; t >= n && n > 0; t-- {
			ways[t] += ways[t-n]
		}
		table := make([]float64, total/2+1)
		var sum float64
		for t := range table {
			sum += ways[t]
			table[t] = math.Ldexp(sum, -n)
		}
		tables[n] = table
	}
	return tables
})

// rankSumTable returns the lower half of the cumulative distribution of the
// Mann–Whitney statistic. The number of arrangements with a statistic of u is
// the coefficient of qᵘ in the Gaussian binomial ∏ (1−qⁿ⁺ⁱ)/(1−qⁱ), i = 1…m.
// The product is multiplied out in 128-bit integers: every coefficient is
// below 2⁹⁷ at exactUpTo, and on the way there wrapping around is harmless
// because adding and subtracting modulo 2¹²⁸ is exact.
func rankSumTable(m, n int) []float64 {
	ways := make([]uint128, m*n/2+1)
	ways[0] = uint128{lo: 1}
	for i := 1; i <= m; i++ {
		for u := len(ways) - 1; u >= n+i; u-- {
			ways[u] = ways[u].minus(ways[u-n-i])
		}
		for u := i; u < len(ways); u++ {
			ways[u] = ways[u].plus(ways[u-i])
		}
	}
	all := 1.0 // the number of arrangements, n+m over m
	for i := 1; i <= m; i++ {
		all = all * float64(n+i) / float64(i)
	}
	table := make([]float64, len(ways))
	var sum uint128
	for u, w := range ways {
		sum = sum.plus(w)
		table[u] = sum.float64() / all
	}
	return table
}

type uint128 struct{ hi, lo uint64 }

func (a uint128) plus(b uint128) uint128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return uint128{hi, lo}
}

func (a uint128) minus(b uint128) uint128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return uint128{hi, lo}
}

func (a uint128) float64() float64 { return math.Ldexp(float64(a.hi), 64) + float64(a.lo) }
