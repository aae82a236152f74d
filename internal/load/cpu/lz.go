package cpu

import "encoding/binary"

// Compression: compresses 8 KiB of text to a form like LZ4's, and decompresses it.
func prepareCompression() func() uint64 {
	plain := text(8 << 10)
	packed, unpacked := make([]byte, packedSize(len(plain))), make([]byte, len(plain))
	table := new(positions)
	return func() uint64 {
		n := compress(packed, plain, table)
		return sum(decompress(unpacked, packed[:n])) + uint64(n)
	}
}

// A packed text is a sequence of parts: the number of literal bytes (one byte), these
// bytes, the length of a match with earlier text (one byte; 0 = none), and how far back
// the match is (two bytes, only if there is one).
const (
	maxRun    = 255
	minMatch  = 5
	hashBits  = 12
	maxPlain  = 1 << 16 // the limit of positions
	partBytes = 4       // besides the literals
)

// positions has the last position, counted from 1, of each hash of four bytes.
type positions [1 << hashBits]uint16

// packedSize is the largest packed size of n bytes.
func packedSize(n int) int { return n + partBytes*(n/maxRun+1) }

// compress packs src, which is shorter than maxPlain, and returns the length.
func compress(dst, src []byte, table *positions) int {
	clear(table[:])
	out, literal := 0, 0 // literals begin there
	for at := 0; at < len(src); {
		before, length := 0, 0
		if at+minMatch <= len(src) {
			before, length = table.find(src, at)
		}
		if length < minMatch {
			at++
			if at-literal == maxRun {
				out += part(dst[out:], src[literal:at], 0, 0)
				literal = at
			}
			continue
		}
		out += part(dst[out:], src[literal:at], length, at-before)
		at += length
		literal = at
	}
	return out + part(dst[out:], src[literal:], 0, 0)
}

// find looks for the bytes at src[at:] in earlier text, and remembers their position.
func (t *positions) find(src []byte, at int) (before, length int) {
	hash := binary.LittleEndian.Uint32(src[at:]) * 2654435761 >> (32 - hashBits)
	before = int(t[hash]) - 1
	t[hash] = uint16(at + 1)
	if before < 0 {
		return 0, 0
	}
	most := min(len(src)-at, maxRun)
	for length < most && src[before+length] == src[at+length] {
		length++
	}
	return before, length
}

func part(dst, literal []byte, length, back int) int {
	dst[0] = byte(len(literal))
	n := 1 + copy(dst[1:], literal)
	dst[n] = byte(length)
	if length == 0 {
		return n + 1
	}
	binary.LittleEndian.PutUint16(dst[n+1:], uint16(back))
	return n + 3
}

// decompress unpacks the output of compress into dst, and returns the part that it used.
func decompress(dst, src []byte) []byte {
	out := 0
	for len(src) > 0 {
		n := int(src[0])
		out += copy(dst[out:], src[1:1+n])
		length := int(src[1+n])
		src = src[2+n:]
		if length == 0 {
			continue
		}
		back := int(binary.LittleEndian.Uint16(src))
		src = src[2:]
		for i := range length { // byte by byte: it may overlap itself
			dst[out+i] = dst[out+i-back]
		}
		out += length
	}
	return dst[:out]
}
