package bpf

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// UnlimitMemlock lifts the limit of locked memory until restore is called, because before Linux 5.11
// maps counted as locked memory. The limit must be restored because processes that tare starts
// inherit it.
func UnlimitMemlock() (restore func()) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		return func() {}
	}
	set := func(l unix.Rlimit) { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l) } // newer kernels need no change
	set(unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	return func() { set(before) }
}

// InFirstNamespace refuses a PID namespace of tare's own, where processes have other numbers than the
// kernel's programs see; the error wraps bench.ErrUnsupported. The number of the first namespace is part
// of the kernel's ABI.
func InFirstNamespace() error {
	const first = "pid:[4026531836]"
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != first {
		return fmt.Errorf("%w: tare runs in a PID namespace of its own, in which processes have other numbers: run it "+
			"on the host itself", bench.ErrUnsupported)
	}
	return nil
}

// Refusal explains an error of the kernel; it wraps bench.ErrUnsupported. What is the use of the programs,
// such as "counting system calls", and needs is the kernel that they need.
func Refusal(err error, what, needs string) error {
	switch lock, _ := os.ReadFile("/sys/kernel/security/lockdown"); {
	case strings.Contains(string(lock), "[confidentiality]"):
		return fmt.Errorf("%w: this kernel is locked down (confidentiality) and refuses programs that observe "+
			"processes: boot without lockdown=confidentiality: %w", bench.ErrUnsupported, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s needs root, or CAP_BPF and CAP_PERFMON", bench.ErrUnsupported, what)
	default:
		return fmt.Errorf("%w: %s needs %s: %w", bench.ErrUnsupported, what, needs, err)
	}
}
