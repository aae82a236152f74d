// Package schedule turns a plan and its seed into the order of trials. It is
// pure: the same plan gives the same schedule on every machine, so a schedule
// can be printed, stored, reviewed and replayed.
package schedule

import (
	"math/bits"
	"math/rand/v2"

	"github.com/tare-bench/tare/internal/bench"
)

// Blocks returns the order in which the cells run in each block, as indices in
// p.Cells: first the warm-up blocks, then p.MaxBlocks measured ones. Every
// block holds every cell once, in an order drawn afresh (randomised multiple
// interleaved trials; Abedi & Brecht, ICPE 2017). Where the plan traces
// after a block, the block holds every cell once more, in another order: the
// traced trials.
func Blocks(p bench.Plan) [][]int {
	blocks := make([][]int, p.Warmup+p.MaxBlocks)
	for i := range blocks {
		blocks[i] = permutation(p.Seed, uint64(i), len(p.Cells))
		if p.TracesAfter(i - p.Warmup) {
			blocks[i] = append(blocks[i], permutation(p.Seed, uint64(i)|traced, len(p.Cells))...)
		}
	}
	return blocks
}

// traced sets the random streams of traced trials apart from those of blocks, so that a plan with a
// timeline has the same order of timed trials as without.
const traced = 1 << 63

// drawn sets the random streams of what is drawn in trials apart, likewise.
const drawn = 1 << 62

// Seed returns the seed of what workloads draw at random in the trials of a block, whose number is that of
// bench.Trial.
func Seed(run uint64, block int) uint64 {
	return rand.NewPCG(run, uint64(uint32(block))|drawn).Uint64()
}

// Trials returns the trials of the given blocks in order of execution. The
// first warmup blocks are numbered from -warmup to -1, the others from 0. The
// second trial of a cell in a block is a traced one.
func Trials(blocks [][]int, warmup int) []bench.Trial {
	var trials []bench.Trial
	latest := map[int]int{} // by cell: the last block that had it, from 1
	for i, cells := range blocks {
		for _, c := range cells {
			again := latest[c] == i+1
			latest[c] = i + 1
			trials = append(trials, bench.Trial{Seq: len(trials), Block: i - warmup, Cell: c, Traced: again})
		}
	}
	return trials
}

// permutation draws an order of n cells. Each block has a random stream of its own, so its order does not depend on the
// number of blocks.
func permutation(seed, block uint64, n int) []int { return Order(rand.NewPCG(seed, block), n) }

// Order draws an order of n things (Fisher & Yates). It does not use Perm, because the library guarantees the stream of
// PCG for ever, but not the result of Perm.
func Order(src *rand.PCG, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := uniform(src, uint64(i)+1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// uniform draws a number from 0 to n-1 without bias (Lemire 2019).
func uniform(src *rand.PCG, n uint64) uint64 {
	hi, lo := bits.Mul64(src.Uint64(), n)
	for threshold := -n % n; lo < threshold; {
		hi, lo = bits.Mul64(src.Uint64(), n)
	}
	return hi
}
