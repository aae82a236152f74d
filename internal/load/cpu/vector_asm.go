//go:build amd64 || arm64

package cpu

// axpy adds a·x to y. Both have the same length, a multiple of sixteen.
//
//go:noescape
func axpy(a float32, x, y []float32)
