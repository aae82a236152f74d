//go:build !amd64 && !arm64

package cpu

func axpy(a float32, x, y []float32) { axpyGo(a, x, y) }
