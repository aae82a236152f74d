package cpu

import "slices"

// Sort: sorts 4096 random numbers with the standard library. They are too many for a
// branch predictor to learn.
func prepareSort() func() uint64 {
	numbers, sorted := make([]uint64, 4096), make([]uint64, 4096)
	var s sequence
	for i := range numbers {
		numbers[i] = s.next()
	}
	return func() uint64 {
		copy(sorted, numbers)
		slices.Sort(sorted)
		total := uint64(0)
		for i, n := range sorted {
			total += uint64(i) * n
		}
		return total
	}
}
