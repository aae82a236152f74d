package disk

import (
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// A Plan has the options of the load.
type Plan struct {
	Dir        string
	Size       int64 // of the file
	Patterns   []Pattern
	Block      int // of random patterns and of fsync
	Sequential int // of the others
	Depth      int
	Direct     string        // Auto, Yes or No
	IO         string        // Auto, or an I/O method
	Time       time.Duration // measured time of each pattern
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

// Ramp is the warm-up of each pattern.
func (p *Plan) Ramp() time.Duration { return p.Time / 10 }

// BlockOf returns the length of a pattern's requests.
func (p *Plan) BlockOf(of Pattern) int {
	if of.Random || of.Sync {
		return p.Block
	}
	return p.Sequential
}

// Read reads the load's options, and checks them together.
func Read(a *load.Args) (Plan, error) {
	p, err := read(a)
	if err != nil {
		return p, err
	}
	return p, p.check()
}

// read reads options, each by itself.
func read(a *load.Args) (Plan, error) {
	p := Plan{
		Dir:        a.Text("dir", "."),
		Size:       a.Bytes("size", "128MiB", sector, maxSize),
		Block:      int(a.Bytes("block", "4KiB", sector, maxBlock)),
		Sequential: int(a.Bytes("sequential_block", "128KiB", sector, maxBlock)),
		Depth:      int(a.Int("depth", 32, 1, maxDepth)),
		Direct:     a.Word("direct", Auto, Auto, Yes, No),
		IO:         a.Word("io", Auto, Auto, Uring, Libaio, Threads),
		Time:       a.Duration("time", 300*time.Millisecond, minTime, maxTime),
	}
	names := a.Text("patterns", allPatterns())
	err := a.Err()
	if err == nil {
		p.Patterns, err = patternsOf(names)
	}
	return p, err
}

func (p *Plan) check() error {
	for _, one := range p.Patterns {
		block := p.BlockOf(one)
		if block%sector != 0 {
			return fmt.Errorf("a block of %d bytes: want a multiple of %d", block, sector)
		}
		if room := int64(block) * int64(p.Depth); p.Size < room {
			return fmt.Errorf("size=%s: %d requests of %s need %s: use a larger size, or a smaller depth",
				inBytes(p.Size), p.Depth, inBytes(int64(block)), inBytes(room))
		}
	}
	return nil
}

// Valid returns what is wrong with one option by itself, without its name.
func Valid(key, value string) error {
	return load.Valid(key, value, func(a *load.Args) error {
		_, err := read(a)
		return err
	})
}
