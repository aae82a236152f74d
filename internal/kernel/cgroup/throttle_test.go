package cgroup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Limits that work in periods are found in a process's own groups and in those above them, which
// nobody asked for. The trees are those of Docker and Podman, with limits that an
// administrator has put on a slice.
func TestThrottles(t *testing.T) {
	for root, want := range map[string]map[int][]cgroup.Throttle{
		"testdata/throttled1": {
			11: nil,
			12: {{Kind: "a CPU quota", File: "cpu.cfs_quota_us", Path: "/limited"}},
			13: {{Kind: "a limit on block devices", File: "blkio.throttle.*", Path: "/slow"}},
		},
		"testdata/throttled2": {
			11: nil,
			12: {{Kind: "a CPU quota", File: "cpu.max", Path: "/limited.slice"}},
			13: {{Kind: "a limit on block devices", File: "io.max", Path: "/system.slice/libpod-4e5f.scope"}},
		},
		"testdata/v2": {4242: {{Kind: "a CPU quota", File: "cpu.max", Path: "/tare/run1/a"}}},
	} {
		h, err := cgroup.Detect(root)
		if err != nil {
			t.Fatal(err)
		}
		for pid, want := range want {
			groups, err := h.PathOf(pid)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Throttles(groups)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, process %d: %v (-want +got):\n%s", root, pid, err, diff)
			}
		}
	}
}
