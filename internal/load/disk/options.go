package disk

import (
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// A Plan is what the load's options ask for.
type Plan struct {
	Dir        string
	Size       int64 // of the file
	Patterns   []Pattern
	Block      int // of random patterns and of fsync
	Sequential int // of the others
	Depth      int
	Direct     string        // Auto, Yes or No
	IO         string        // Auto, or a way to hand requests to the kernel
	Time       time.Duration // for which each pattern is measured
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

// Ramp is how long each pattern runs before it is measured.
func (p *Plan) Ramp() time.Duration { return p.Time / 10 }

// BlockOf returns the length of a pattern's requests.
func (p *Plan) BlockOf(of Pattern) int {
	if of.Random || of.Sync {
		return p.Block
	}
	return p.Sequential
}

// Read reads the load's options, and holds them to one another.
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
			return fmt.Errorf("size=%s: %d requests of %s take %s; want a larger size, or less depth",
				inBytes(p.Size), p.Depth, inBytes(int64(block)), inBytes(room))
		}
	}
	return nil
}

// Valid says what is wrong with an option, seen by itself, without its name.
func Valid(key, value string) error {
	return load.Valid(key, value, func(a *load.Args) error {
		_, err := read(a)
		return err
	})
}
