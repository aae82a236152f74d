//go:build !amd64

package trace

// firstArgument is where struct pt_regs has the first argument of a system call, also when it has ended: in arm64.
const firstArgument = "orig_x0"

// olderCallNames are system calls that only older processors have.
var olderCallNames map[int]string
