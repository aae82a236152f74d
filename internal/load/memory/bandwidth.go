package memory

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// block is the number of words between two readings of the clock: 256 KiB.
const block = 32 << 10

// A kernel is one kind of access to the arrays.
type kernel struct {
	name  string
	bytes int // read and written for each word
	share int // of the time, beside the shares of other kernels
	// do processes a block. Read returns the sum of the words, the others 0.
	do func(a, b, c []uint64) uint64
	// want is the result of do for a block of ones.
	want uint64
}

// kernels lists the moves in an order in which each finds the values that it expects: every
// word of a, and then of b, is 1. Copying, which decides, has as much time as the others together.
func kernels() []kernel {
	return []kernel{
		{Write, wordSize, 1, func(a, _, _ []uint64) uint64 { fill(a, 1); return 0 }, 0},
		{Read, wordSize, 1, func(a, _, _ []uint64) uint64 { return total(a) }, block},
		{Copy, 2 * wordSize, 3, func(a, b, _ []uint64) uint64 { duplicate(b, a); return 0 }, 0},
		{Triad, 3 * wordSize, 1, func(a, b, c []uint64) uint64 { combine(c, a, b); return 0 }, 0},
	}
}

// copying is the kernel that copies.
func copying() kernel {
	all := kernels()
	return all[slices.IndexFunc(all, func(k kernel) bool { return k.name == Copy })]
}

// bandwidths measures moves on all threads at once, one after the other.
func bandwidths(page *turn.Page, r *load.Report, a *arrays, share time.Duration, moves ...kernel) error {
	shares := 0
	for _, m := range moves {
		shares += m.share
	}
	for _, m := range moves {
		rates, errs := make([]float64, a.threads), make([]error, a.threads)
		speeds := load.RunThreads(page, a.threads, func(i int, clock *turn.Clock) {
			w := pass{
				kernel: m, a: part(a.words[0], i, a.threads), b: part(a.words[1], i, a.threads), c: part(a.words[2], i, a.threads),
			}
			rates[i], errs[i] = w.rate(clock, share*time.Duration(m.share)/time.Duration(shares))
		})
		for i, rate := range rates {
			if errs[i] != nil {
				return errs[i]
			}
			r.Values[m.name] += rate
		}
		r.AddSlices(m.name, speeds)
	}
	return a.verify()
}

// pass is one thread's repeated pass through its parts of the arrays.
type pass struct {
	kernel
	a, b, c []uint64
	at      int
}

func (w *pass) step() error {
	from, to := w.at, w.at+block
	if got := w.do(w.a[from:to], w.b[from:to], w.c[from:to]); got != w.want {
		return fmt.Errorf("%s: %d words of 1 add up to %d: this machine's memory is broken", w.name, block, got)
	}
	if w.at = to; w.at == len(w.a) {
		w.at = 0
	}
	return nil
}

// rate returns the bytes per second in a share of the time; the first tenth is warm-up.
func (w *pass) rate(clock *turn.Clock, share time.Duration) (float64, error) {
	blocks, start, now := 0, time.Duration(0), time.Duration(0)
	for blocks == 0 || now < share {
		if err := w.step(); err != nil {
			return 0, err
		}
		blocks++
		now = clock.Now()
		if start == 0 && now >= share/10 {
			blocks, start = 0, now
		}
		clock.Did(block)
		clock.Pause(now)
	}
	return float64(blocks) * block * float64(w.bytes) / (now - start).Seconds(), nil
}

// verify checks the values that the moves have left at the beginning of the arrays.
func (a *arrays) verify() error {
	for i, want := range []uint64{1, 1, 4} {
		for at, got := range a.words[i][:block] {
			if got != want {
				return fmt.Errorf(
					"word %d of array %d is %d but should be %d: this machine's memory is broken",
					at, i, got, want)
			}
		}
	}
	return nil
}
