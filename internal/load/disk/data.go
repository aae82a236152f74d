package disk

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
)

// mapMemory returns memory of its own pages.
func mapMemory(bytes int) ([]byte, error) {
	return syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
}

func unmapMemory(m []byte) {
	_ = syscall.Munmap(m) // fails for what is no mapping only
}

// scramble fills b with what no disk can compress.
func scramble(b []byte, salt uint64) {
	random := rand.NewPCG(seed, salt)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, random.Uint64())
		b = b[8:]
	}
}

// stamp changes a block in the first bytes of each page, so that it is written
// once only.
func stamp(b []byte) {
	for ; len(b) >= sector; b = b[min(len(b), page):] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+1)
	}
}

const page = 4096

// newSlots returns memory that direct I/O can use, in parts of equal length, and
// what gives it back.
func newSlots(n, block int) ([][]byte, func(), error) {
	all, err := mapMemory(n * block)
	if err != nil {
		return nil, nil, fmt.Errorf("%d buffers of %d bytes: %w", n, block, err)
	}
	slots := make([][]byte, n)
	for i := range slots {
		slots[i] = all[i*block : (i+1)*block : (i+1)*block]
		scramble(slots[i], uint64(i))
	}
	return slots, func() { unmapMemory(all) }, nil
}
