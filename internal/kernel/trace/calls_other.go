//go:build !amd64

package trace

// olderCallNames are system calls that only older processors have.
var olderCallNames map[int]string
