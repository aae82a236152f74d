package memory

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// smallest is the size of the smallest working set, in bytes; each of the others is four
// times as large as the one before.
const smallest = 16 << 10

// lineWords is the number of words of a cache line of 64 bytes, of which one is visited.
const lineWords = 8

// Sizes returns the sizes of the working sets below size, whose latencies are details.
func Sizes(size int64) []int64 {
	var all []int64
	for s := int64(smallest); s < size; s *= 4 {
		all = append(all, s)
	}
	return all
}

// LatencyOf returns the name of the latency of a working set of size bytes.
func LatencyOf(size int64) string {
	unit := bits.TrailingZeros64(uint64(size)) / 10
	return fmt.Sprintf("%s.%d%ciB", Latency, size>>(10*unit), " KMGT"[unit])
}

// latencies measures every working set. The last one is the largest power of two that
// fits into memory, and gets half of the time.
func latencies(page *turn.Page, r *load.Report, memory []uint64, share time.Duration) error {
	sizes := Sizes(int64(wholeSet(memory)) * wordSize)
	for _, size := range sizes {
		c := newChase(memory[:size/wordSize])
		each, err := c.measure(page, share/2/time.Duration(len(sizes)))
		if err != nil {
			return err
		}
		r.Values[LatencyOf(size)] = each
	}
	each, err := newChase(memory[:wholeSet(memory)]).measure(page, share/2)
	r.Values[Latency] = each
	return err
}

// wholeSet is the number of words of the largest working set: a power of two.
func wholeSet(memory []uint64) int { return 1 << (bits.Len(uint(len(memory))) - 1) }

// A chase is a pointer chase over cache lines: each visited word holds the index of the
// next one. It visits all lines before it returns to the first.
type chase struct {
	words []uint64
	steps int // so far
	at    uint64
}

// newChase writes the chain into words, whose number is a power of two.
func newChase(words []uint64) *chase {
	lines := len(words) / lineWords
	from := linePosition(0, lines)
	for i := range lines {
		to := linePosition(i+1, lines)
		words[from] = to
		from = to
	}
	return &chase{words: words, at: linePosition(0, lines)}
}

// linePosition returns the index of the word of the i-th line in the chain. It is a permutation
// of all lines, whose number is a power of two, and looks random. Unlike a shuffle, it
// needs no extra memory, and making the chain does not wait for memory at each line.
func linePosition(i, lines int) uint64 {
	mask := uint64(lines - 1)
	half := (bits.Len64(mask) + 1) / 2
	z := uint64(i) & mask
	z = (z*0x9e3779b97f4a7c15 + 0x7f4a7c15) & mask
	z ^= z >> half
	z = z * 0xbf58476d1ce4e5b9 & mask
	z ^= z >> half
	z = z * 0x94d049bb133111eb & mask
	z ^= z >> half
	return z * lineWords
}

// walk goes a number of steps, a multiple of eight.
func (c *chase) walk(steps int) {
	at, words := c.at, c.words
	for range steps / 8 {
		at = words[at]
		at = words[at]
		at = words[at]
		at = words[at]
		at = words[at]
		at = words[at]
		at = words[at]
		at = words[at]
	}
	c.at = at
	c.steps += steps
}

const (
	// chunk is the shortest time between two readings of the clock.
	chunk = 100 * time.Microsecond
	// chunks is the largest number of chunks, if none takes much less time than planned.
	chunks = 4096
)

// measure returns the seconds for each step in the fastest chunks. Making the chain has already touched the memory; a
// tenth of the time is warm-up.
func (c *chase) measure(page *turn.Page, share time.Duration) (each float64, err error) {
	clock := page.Stage(1).Clock(time.Now())
	steps := c.warm(clock, share/10, max(chunk, share/chunks))
	took := make([]time.Duration, 0, 2*chunks)
	for now := clock.Now(); len(took) == 0 || now < share; {
		clock.Pause(now)
		last := now
		c.walk(steps)
		now = clock.Now()
		took = append(took, now-last)
	}
	clock.End()
	lines := len(c.words) / lineWords
	if want := linePosition(c.steps, lines); c.at != want {
		return 0, fmt.Errorf("after %d steps through %d lines the chain is at word %d but should be at %d: "+
			"this machine's memory is broken", c.steps, lines, c.at, want)
	}
	return medianOfFastest(took, steps), nil
}

// medianOfFastest returns the seconds for each step in the first percentile of the chunks:
// disturbances can only delay a chunk. It sorts took.
func medianOfFastest(took []time.Duration, steps int) float64 {
	slices.Sort(took)
	return took[len(took)/100].Seconds() / float64(steps)
}

// warm returns the number of steps that take a chunk of time, after a share of it.
func (c *chase) warm(clock *turn.Clock, share, chunk time.Duration) int {
	for steps, now := 64, clock.Now(); ; clock.Pause(now) {
		before := now
		c.walk(steps)
		if now = clock.Now(); now-before < chunk {
			steps *= 2
		} else if now >= share {
			return steps
		}
	}
}
