package localtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/readback"
)

// LimitsForPodman lets the podman command make containers where the kernel withholds CAP_SYS_RESOURCE, as
// in many sandboxes: with resource limits that are below its own. The driver does so by itself. The test
// must not be parallel.
func LimitsForPodman(t testing.TB) {
	t.Helper()
	if lacks, err := readback.Unavailable(readback.Self); err != nil || lacks == 0 {
		return
	}
	half := func(resource int) uint64 {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			t.Fatal(err)
		}
		return min(l.Max/2, 30_000) // podman lowers its own to kernel.pid_max
	}
	conf := filepath.Join(t.TempDir(), "containers.conf")
	text := fmt.Sprintf("[containers]\ndefault_ulimits = [\"nofile=%[1]d:%[1]d\", \"nproc=%[2]d:%[2]d\"]\n",
		half(unix.RLIMIT_NOFILE), half(unix.RLIMIT_NPROC))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_CONF", conf)
}
