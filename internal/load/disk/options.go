package disk

import (
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// options are what Run was asked for.
type options struct {
	dir        string
	size       int64
	patterns   []pattern
	block      int
	sequential int // block of the sequential patterns
	depth      int
	direct     string
	io         string
	time, ramp time.Duration // each pattern is measured for, and runs before
}

// The bounds of options.
const (
	sector   = 512
	maxBlock = 16 << 20
	maxDepth = 256
	maxSize  = 1 << 40
	minTime  = 10 * time.Millisecond
	maxTime  = 10 * time.Minute
)

// Ramp is how long a pattern runs before it is measured for d.
func Ramp(d time.Duration) time.Duration { return d / 10 }

// read reads options, each by itself.
func read(a *load.Args) (options, error) {
	o := options{
		dir:        a.Text("dir", "."),
		size:       a.Bytes("size", "128MiB", sector, maxSize),
		block:      int(a.Bytes("block", "4KiB", sector, maxBlock)),
		sequential: int(a.Bytes("sequential_block", "128KiB", sector, maxBlock)),
		depth:      int(a.Int("depth", 32, 1, maxDepth)),
		direct:     a.Word("direct", Auto, Auto, Yes, No),
		io:         a.Word("io", Auto, Auto, Uring, Libaio, Threads),
		time:       a.Duration("time", 300*time.Millisecond, minTime, maxTime),
	}
	o.ramp = Ramp(o.time)
	names := a.Text("patterns", allPatterns())
	err := a.Err()
	if err == nil {
		o.patterns, err = patternsOf(names)
	}
	return o, err
}

// check holds the options to one another.
func (o *options) check() error {
	for _, p := range o.patterns {
		block := o.blockOf(p)
		if block%sector != 0 {
			return fmt.Errorf("a block of %d bytes: want a multiple of %d", block, sector)
		}
		if room := int64(block) * int64(o.depth); o.size < room {
			return fmt.Errorf("size=%d: %d requests of %d bytes take %d; want a larger size, or less depth", o.size, o.depth, block, room)
		}
	}
	return nil
}

func (o *options) blockOf(p pattern) int {
	if p.random || p.sync {
		return o.block
	}
	return o.sequential
}

// Valid says what is wrong with an option, seen by itself.
func Valid(key, value string) error {
	a, err := load.ParseArgs([]string{key + "=" + value})
	if err == nil {
		_, err = read(a)
	}
	return err
}

// Check says what is wrong with options, seen together.
func Check(words []string) error {
	a, err := load.ParseArgs(words)
	if err != nil {
		return err
	}
	o, err := read(a)
	if err != nil {
		return err
	}
	return o.check()
}
