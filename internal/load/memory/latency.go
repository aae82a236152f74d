package memory

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// smallest is the smallest working set whose latency is measured, in bytes; each
// of the others has four times as many as the one before it.
const smallest = 16 << 10

// lineWords is how many words lie between two that are visited: a cache line of
// 64 bytes has one.
const lineWords = 8

// Sizes returns the working sets whose latencies are details: those below size.
func Sizes(size int64) []int64 {
	var all []int64
	for s := int64(smallest); s < size; s *= 4 {
		all = append(all, s)
	}
	return all
}

// LatencyOf is the name of the latency of a working set of that many bytes.
func LatencyOf(size int64) string {
	unit := bits.TrailingZeros64(uint64(size)) / 10
	return fmt.Sprintf("%s.%d%ciB", Latency, size>>(10*unit), " KMGT"[unit])
}

// latencies measures every working set in the memory given, whose largest power
// of two is the last one and gets half of the time.
func latencies(values map[string]float64, memory []uint64, share time.Duration) error {
	whole := 1 << (bits.Len(uint(len(memory))) - 1)
	sizes := Sizes(int64(whole) * wordSize)
	for _, size := range sizes {
		c := newChase(memory[:size/wordSize])
		each, err := c.measure(share / 2 / time.Duration(len(sizes)))
		if err != nil {
			return err
		}
		values[LatencyOf(size)] = each
	}
	each, err := newChase(memory[:whole]).measure(share / 2)
	values[Latency] = each
	return err
}

// A chase goes from one cache line to the next, wherever that is: the word
// visited says. All lines are on the way before it comes back to the first.
type chase struct {
	words []uint64
	steps int // so far
	at    uint64
}

// newChase lays the way through words, of which there is a power of two.
func newChase(words []uint64) *chase {
	lines := len(words) / lineWords
	from := place(0, lines)
	for i := range lines {
		to := place(i+1, lines)
		words[from] = to
		from = to
	}
	return &chase{words: words, at: place(0, lines)}
}

// place is where the i-th line of the way is, as an index of its word: a
// permutation of all lines, whose number is a power of two, that looks random.
// It needs no memory of its own and, other than shuffling, its way is laid
// without waiting for the memory at each line.
func place(i, lines int) uint64 {
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

// walk goes that many steps, a multiple of eight.
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
	// chunk is how long it goes at least between two looks at the clock.
	chunk = 100 * time.Microsecond
	// chunks is how many there are at most, if none takes much less than planned.
	chunks = 4096
)

// measure returns the seconds for each step, those of the quickest chunks. It has
// gone through the memory when the way was laid; a tenth of the time is to warm up.
func (c *chase) measure(share time.Duration) (float64, error) {
	steps := c.warm(share/10, max(chunk, share/chunks))
	took := make([]time.Duration, 0, 2*chunks)
	began, now := time.Now(), time.Duration(0)
	for now == 0 || now < share-share/10 {
		last := now
		c.walk(steps)
		now = time.Since(began)
		took = append(took, now-last)
	}
	lines := len(c.words) / lineWords
	if want := place(c.steps, lines); c.at != want {
		return 0, fmt.Errorf("after %d steps through %d lines it is at word %d, and should be at %d: this machine's memory is broken", c.steps, lines, c.at, want)
	}
	return quickest(took, steps), nil
}

// quickest returns the seconds for each step of chunks that took so long: those of
// their first percentile, for what disturbs a chunk can but delay it. It sorts them.
func quickest(took []time.Duration, steps int) float64 {
	slices.Sort(took)
	return took[len(took)/100].Seconds() / float64(steps)
}

// warm returns how many steps take a chunk of time.
func (c *chase) warm(share, chunk time.Duration) int {
	steps := 64
	for began := time.Now(); ; {
		before := time.Now()
		c.walk(steps)
		if time.Since(before) < chunk {
			steps *= 2
		} else if time.Since(began) >= share {
			return steps
		}
	}
}
