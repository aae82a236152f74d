package cpu

import "encoding/binary"

// Compression: 8 KiB of text to a form like LZ4's, and back.
func prepareCompression() func() uint64 {
	plain := text(8 << 10)
	packed, unpacked := make([]byte, packedSize(len(plain))), make([]byte, len(plain))
	table := new(positions)
	return func() uint64 {
		n := compress(packed, plain, table)
		return sum(decompress(unpacked, packed[:n])) + uint64(n)
	}
}

// A packed text is a row of parts: how many bytes are literal (one byte), these
// bytes, how many follow that were there before (one byte; 0 for none), and how
// far back they are (two bytes, only where there are any).
const (
	maxRun    = 255
	minMatch  = 5
	hashBits  = 12
	maxPlain  = 1 << 16 // what positions can tell apart
	partBytes = 4       // beside the literals
)

// positions is where each hash of four bytes was seen last, counted from 1.
type positions [1 << hashBits]uint16

// packedSize is how long n bytes become at most.
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

// find looks for what is at src[at:] further ahead, and notes the place.
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

// decompress unpacks what compress made into dst, and returns the part used.
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
