package disk

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
)

// A pattern is what is done to the file.
type pattern struct {
	name   string
	random bool // else in order, and from the beginning again
	write  bool
	sync   bool // each block is forced to the disk
}

// patterns lists every pattern, in the order in which they disturb one another
// least.
func patterns() []pattern {
	return []pattern{
		{name: "randread", random: true},
		{name: "read"},
		{name: "randwrite", random: true, write: true},
		{name: "write", write: true},
		{name: "fsync", write: true, sync: true},
	}
}

// allPatterns lists the names of all patterns, as an option.
func allPatterns() string {
	var names []string
	for _, p := range patterns() {
		names = append(names, p.name)
	}
	return strings.Join(names, ",")
}

// patternsOf reads a list of names with commas, each once; "none" is the empty one.
func patternsOf(list string) ([]pattern, error) {
	if list == "none" {
		return nil, nil
	}
	var chosen []pattern
	seen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		p, ok := patternNamed(name)
		if !ok || seen[name] {
			return nil, fmt.Errorf("patterns=%.80s: want some of %s, each once, or none", list, allPatterns())
		}
		seen[name] = true
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func patternNamed(name string) (pattern, bool) {
	for _, p := range patterns() {
		if p.name == name {
			return p, true
		}
	}
	return pattern{}, false
}

// run does the pattern until the tally's time is over.
func (p pattern) run(f *file, o options, q queue, t *tally) error {
	if p.sync {
		return f.syncs(o, t)
	}
	slots, free, err := newSlots(o.depth, o.blockOf(p))
	if err != nil {
		return err
	}
	defer free()
	return q.run(work{fd: f.fd(), write: p.write, slots: slots, random: p.random, size: o.size}, t)
}

// A work is requests of one kind, as many at a time as there are slots.
type work struct {
	fd     int
	write  bool
	random bool
	size   int64    // of the file
	slots  [][]byte // the buffer of each request under way
}

func (w *work) block() int64 { return int64(len(w.slots[0])) }

// cursor returns the offsets of all requests.
func (w *work) cursor() *cursor { return w.part(0, 1) }

// part returns those of one thread of several: at random anywhere, in order
// within a stretch of its own.
func (w *work) part(i, of int) *cursor {
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
	random        *rand.PCG // nil: in order
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
