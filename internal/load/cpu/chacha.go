package cpu

import (
	"encoding/binary"
	"math/bits"
)

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Encryption: encrypts 16 KiB with ChaCha20, in plain Go. The library's ciphers test
// themselves at program start, which would slow every task of the agent.
func prepareEncryption() func() uint64 {
	var s sequence
	var key [8]uint32
	for i := range key {
		key[i] = uint32(s.next())
	}
	plain, cipher := make([]byte, 16<<10), make([]byte, 16<<10)
	copy(plain, text(len(plain)))
	return func() uint64 {
		chacha20(cipher, plain, &key, &[3]uint32{1, 2, 3}, 1)
		return sum(cipher)
	}
}

const chachaBlock = 64

// chacha20 encrypts src into dst (RFC 8439, 2.4), starting at block counter.
func chacha20(dst, src []byte, key *[8]uint32, nonce *[3]uint32, counter uint32) {
	state := [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	copy(state[4:], key[:])
	state[12] = counter
	copy(state[13:], nonce[:])
	var stream [chachaBlock]byte
	for len(src) > 0 {
		keystream(&stream, &state)
		n := min(len(src), chachaBlock)
		for i := range n {
			dst[i] = src[i] ^ stream[i]
		}
		dst, src = dst[n:], src[n:]
		state[12]++
	}
}

// keystream is the block function (RFC 8439, 2.3).
func keystream(out *[chachaBlock]byte, s *[16]uint32) {
	x0, x1, x2, x3 := s[0], s[1], s[2], s[3]
	x4, x5, x6, x7 := s[4], s[5], s[6], s[7]
	x8, x9, x10, x11 := s[8], s[9], s[10], s[11]
	x12, x13, x14, x15 := s[12], s[13], s[14], s[15]
	for range 10 {
		x0, x4, x8, x12 = quarter(x0, x4, x8, x12)
		x1, x5, x9, x13 = quarter(x1, x5, x9, x13)
		x2, x6, x10, x14 = quarter(x2, x6, x10, x14)
		x3, x7, x11, x15 = quarter(x3, x7, x11, x15)
		x0, x5, x10, x15 = quarter(x0, x5, x10, x15)
		x1, x6, x11, x12 = quarter(x1, x6, x11, x12)
		x2, x7, x8, x13 = quarter(x2, x7, x8, x13)
		x3, x4, x9, x14 = quarter(x3, x4, x9, x14)
	}
	for i, x := range [16]uint32{x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15} {
		binary.LittleEndian.PutUint32(out[4*i:], x+s[i])
	}
}

func quarter(a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	a += b
	d = bits.RotateLeft32(d^a, 16)
	c += d
	b = bits.RotateLeft32(b^c, 12)
	a += b
	d = bits.RotateLeft32(d^a, 8)
	c += d
	b = bits.RotateLeft32(b^c, 7)
	return a, b, c, d
}
