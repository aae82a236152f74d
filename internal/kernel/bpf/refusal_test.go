package bpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// A refusal says everything that is needed at once, what the kernel said, and what does not help.
func TestRefusal(t *testing.T) {
	use := Use{What: "a timeline", Rights: "CAP_BPF and CAP_SYSLOG", Kernel: "Linux 5.8 or newer"}
	const (
		unlocked = "[none] integrity confidentiality\n"
		locked   = "none integrity [confidentiality]\n"
		host     = "         0          0 4294967295\n"
		rootless = "         0       1000          1\n"
	)
	for _, c := range []struct {
		err             error
		lockdown, users string
		want            []string
		not             string
	}{
		{unix.EPERM, unlocked, host, []string{"a timeline needs root, or CAP_BPF and CAP_SYSLOG: "}, "user namespace"},
		{unix.EACCES, "", "", []string{"needs root, or CAP_BPF and CAP_SYSLOG: "}, "user namespace"},
		{
			unix.EPERM, "", rootless,
			[]string{"needs root of the host, or CAP_BPF and CAP_SYSLOG there", "run it outside"},
			"needs root,",
		},
		{unix.EPERM, locked, host, []string{"boot without lockdown=confidentiality: "}, "root"},
		{unix.EINVAL, unlocked, host, []string{"a timeline needs Linux 5.8 or newer: "}, "root"},
		{errors.New("no BTF"), "", rootless, []string{"a timeline needs Linux 5.8 or newer: "}, "user namespace"},
	} {
		got := use.refusal(fmt.Errorf("map create: %w (MEMLOCK may be too low)", c.err), c.lockdown, c.users)
		if !errors.Is(got, bench.ErrUnsupported) || errors.Is(got, c.err) || strings.Contains(got.Error(), "MEMLOCK") {
			t.Errorf("%q wraps not ErrUnsupported alone", got)
		}
		for _, want := range append(c.want, "map create: "+c.err.Error()) {
			if !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), c.not) {
				t.Errorf("%q, want %q in it, and not %q", got, want, c.not)
			}
		}
	}
}
