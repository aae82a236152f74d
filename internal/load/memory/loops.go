package memory

// The loops process eight words at a time, a cache line, whose bounds the compiler knows.
// They ignore the rest of a length that is not a multiple of eight.

type line = [8]uint64

// fill sets every word.
func fill(a []uint64, v uint64) {
	for ; len(a) >= len(line{}); a = a[8:] {
		l := (*line)(a)
		l[0], l[1], l[2], l[3] = v, v, v, v
		l[4], l[5], l[6], l[7] = v, v, v, v
	}
}

// total returns the sum of all words.
func total(a []uint64) uint64 {
	var s, t, u, v uint64
	for ; len(a) >= len(line{}); a = a[8:] {
		l := (*line)(a)
		s += l[0] + l[4]
		t += l[1] + l[5]
		u += l[2] + l[6]
		v += l[3] + l[7]
	}
	return s + t + u + v
}

// duplicate copies a to b, which have the same length.
func duplicate(b, a []uint64) {
	for ; len(a) >= len(line{}) && len(b) >= len(line{}); a, b = a[8:], b[8:] {
		x, y := (*line)(a), (*line)(b)
		y[0], y[1], y[2], y[3] = x[0], x[1], x[2], x[3]
		y[4], y[5], y[6], y[7] = x[4], x[5], x[6], x[7]
	}
}

// combine sets c to a + 3b. All have the same length.
func combine(c, a, b []uint64) {
	for ; len(a) >= len(line{}) && len(b) >= len(line{}) && len(c) >= len(line{}); a, b, c = a[8:], b[8:], c[8:] {
		x, y, z := (*line)(a), (*line)(b), (*line)(c)
		z[0], z[1], z[2], z[3] = x[0]+3*y[0], x[1]+3*y[1], x[2]+3*y[2], x[3]+3*y[3]
		z[4], z[5], z[6], z[7] = x[4]+3*y[4], x[5]+3*y[5], x[6]+3*y[6], x[7]+3*y[7]
	}
}
