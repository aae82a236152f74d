package cpu

// A kernel is one kind of work. Its operation is fixed: the same work with the same
// answer each time, some 50 µs on a CPU of 2020.
type kernel struct {
	name string
	// prepare makes the data of one thread, and returns the operation. The operation
	// allocates nothing, and returns its answer.
	prepare func() func() uint64
	// want is the right answer.
	want uint64
}

// kernels returns all of them, in the order in which they run.
func kernels() []kernel {
	return []kernel{
		{"integer", prepareInteger, 1680499676695962812},
		{"float", prepareFloat, 12566372},
		{"prime", prepareSieve, 12251},
		{"sort", prepareSort, 8938628706424070306},
		{"encryption", prepareEncryption, 6829144077855082289},
		{"compression", prepareCompression, 15731987389096521572},
		{"physics", preparePhysics, 169087605},
		{"strings", prepareStrings, 18277100288177256198},
		{"vector", prepareVector, 12814631},
	}
}

// Kernels returns the names of all kernels.
func Kernels() []string {
	var names []string
	for _, k := range kernels() {
		names = append(names, k.name)
	}
	return names
}

// A sequence is the generator splitmix64 (Steele, Lea, Flood 2014): with it, the kernels
// have the same data everywhere.
type sequence uint64

func (s *sequence) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	return mix(uint64(*s))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// sum hashes bytes with FNV-1a, eight at a time, and the rest one by one.
func sum(data []byte) uint64 {
	h := uint64(14695981039346656037)
	for ; len(data) >= 8; data = data[8:] {
		h = (h ^ word(data)) * 1099511628211
	}
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
