package cpu

// Vector: computes a·x + y over 2048 numbers of single precision, 192 times, with the
// CPU's vector instructions (four numbers at a time). All numbers are whole and small
// enough to be exact, however the CPU rounds.
func prepareVector() func() uint64 {
	const size, rounds = 2048, 48
	x, y, first := make([]float32, size), make([]float32, size), make([]float32, size)
	var s sequence
	for i := range x {
		x[i], first[i] = float32(s.next()%256), float32(s.next()%256)
	}
	return func() uint64 {
		copy(y, first)
		for range rounds {
			axpy(5, x, y)
			axpy(-3, x, y)
			axpy(2, x, y)
			axpy(-3, x, y)
		}
		total := uint64(0)
		for i, v := range y {
			total += uint64(int64(v)) ^ uint64(i)
		}
		return total
	}
}

// axpyGo adds a·x to y, one number at a time; y is as long as x.
func axpyGo(a float32, x, y []float32) {
	for i := range y {
		y[i] += a * x[i]
	}
}
