package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
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

// A Use is what programs are for, and what they need.
type Use struct {
	What   string // such as "counting system calls"
	Rights string // the capabilities that do in place of root's
	Kernel string
}

// Refusal explains an error of the kernel; it wraps bench.ErrUnsupported.
func (u Use) Refusal(err error) error {
	lockdown, _ := os.ReadFile("/sys/kernel/security/lockdown") // a kernel without it is not locked down
	users, _ := os.ReadFile("/proc/self/uid_map")
	return u.refusal(err, string(lockdown), string(users))
}

// refusal explains an error where the kernel's files on lockdown and on tare's user namespace say this. It does not wrap
// the error, for which others have advice, such as on files that may not be read.
func (u Use) refusal(err error, lockdown, users string) error {
	said, _, _ := strings.Cut(err.Error(), " (MEMLOCK") // a guess of the library's, and no limit here
	switch {
	case strings.Contains(lockdown, "[confidentiality]"):
		return fmt.Errorf("%w: this kernel is locked down (confidentiality) and refuses programs that observe "+
			"processes: boot without lockdown=confidentiality: %s", bench.ErrUnsupported, said)
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s needs %s: %s", bench.ErrUnsupported, u.What, u.Kernel, said)
	case !isFirstUsers(users):
		return fmt.Errorf("%w: %s needs root of the host, or %s there, but tare runs in a user namespace, whose root "+
			"does not count: run it outside: %s", bench.ErrUnsupported, u.What, u.Rights, said)
	default:
		return fmt.Errorf("%w: %s needs root, or %s: %s", bench.ErrUnsupported, u.What, u.Rights, said)
	}
}

// isFirstUsers reports whether a uid_map is that of the first user namespace, as it is if there are no others.
func isFirstUsers(users string) bool {
	f := strings.Fields(users)
	return len(f) == 0 || slices.Equal(f, []string{"0", "0", "4294967295"})
}
