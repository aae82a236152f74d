package disk

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
)

// mapMemory returns memory in pages of its own.
func mapMemory(bytes int) ([]byte, error) {
	return syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
}

func unmapMemory(m []byte) {
	_ = syscall.Munmap(m) // fails only if m is not a mapping
}

// scramble fills b with random bytes, which no disk can compress.
func scramble(b []byte, salt uint64) {
	random := rand.NewPCG(seed, salt)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, random.Uint64())
		b = b[8:]
	}
}

// stamp changes the first bytes of each page of a block, so that no data is written twice.
func stamp(b []byte) {
	for ; len(b) >= sector; b = b[min(len(b), page):] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+1)
	}
}

const page = 4096

// newSlots returns memory for direct I/O, in parts of equal length, and a function that
// frees it.
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
