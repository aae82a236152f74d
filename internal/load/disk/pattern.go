package disk

import (
	"math/bits"
	"math/rand/v2"
	"strings"

	"github.com/tare-bench/tare/internal/load"
)

// A Pattern is one kind of access to the file.
type Pattern struct {
	Name   string
	Random bool // otherwise sequential, and at the end from the beginning again
	Write  bool
	Sync   bool // each block is forced to the disk
}

// patterns lists every pattern, in the order in which they affect one another least.
func patterns() []Pattern {
	return []Pattern{
		{Name: "randread", Random: true},
		{Name: "read"},
		{Name: "randwrite", Random: true, Write: true},
		{Name: "write", Write: true},
		{Name: "fsync", Write: true, Sync: true},
	}
}

// allPatterns lists the names of all patterns, as an option.
func allPatterns() string {
	var names []string
	for _, p := range patterns() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ",")
}

// patternsOf reads a list of names, separated by commas, each once; "none" is the empty
// list.
func patternsOf(list string) ([]Pattern, error) {
	if list == "none" {
		return nil, nil
	}
	var chosen []Pattern
	seen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		p, ok := patternNamed(name)
		if !ok || seen[name] {
			return nil, &load.ValueError{Key: "patterns", Value: list, Want: "some of " + allPatterns() + ", each once, or none"}
		}
		seen[name] = true
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func patternNamed(name string) (Pattern, bool) {
	for _, p := range patterns() {
		if p.Name == name {
			return p, true
		}
	}
	return Pattern{}, false
}

// run runs a pattern until the tally's time is over.
func (f *file) run(p Pattern, plan Plan, q queue, t *tally) error {
	if p.Sync {
		return f.syncs(plan, t)
	}
	slots, free, err := newSlots(plan.Depth, plan.BlockOf(p))
	if err != nil {
		return err
	}
	defer free()
	return q.run(work{fd: f.fd(), write: p.Write, slots: slots, random: p.Random, size: plan.Size}, t)
}

// A work describes requests of one kind, as many in flight as there are slots.
type work struct {
	fd     int
	write  bool
	random bool
	size   int64    // of the file
	slots  [][]byte // the buffer of each request in flight
}

func (w *work) block() int64 { return int64(len(w.slots[0])) }

// cursor returns the offsets of all requests.
func (w *work) cursor() *cursor { return w.threadCursor(0, 1) }

// threadCursor returns the offsets for one of several threads: anywhere if random, otherwise
// within a section of its own.
func (w *work) threadCursor(i, of int) *cursor {
	c := &cursor{block: w.block(), blocks: uint64(w.size / w.block())}
	if w.random {
		c.random = rand.NewPCG(seed, uint64(i))
		return c
	}
	c.blocks /= uint64(of)
	c.first = uint64(i) * c.blocks
	return c
}

// seed is always the same, so that every trial does the same work.
const seed = 0x7a5e

// A cursor goes through the blocks of a file.
type cursor struct {
	block         int64
	first, blocks uint64
	random        *rand.PCG // nil: sequential
	at            uint64
}

// next returns the offset of the next request.
func (c *cursor) next() int64 {
	n := c.at
	if c.random != nil {
		n, _ = bits.Mul64(c.random.Uint64(), c.blocks)
	} else if c.at++; c.at == c.blocks {
		c.at = 0
	}
	return int64(c.first+n) * c.block
}
