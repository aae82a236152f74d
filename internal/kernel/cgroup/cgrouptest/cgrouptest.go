// Package cgrouptest gives tests a control group of their own on the machine
// that they run on.
package cgrouptest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Live returns the machine's own hierarchy and the path of a group that the test may make. The
// group is removed at the end. If groups cannot be made, the test is skipped, unless runc, which
// needs them too, is required here.
func Live(t *testing.T) (h *cgroup.Hierarchy, path string) {
	t.Helper()
	h, err := cgroup.Detect("/")
	if err == nil {
		err = h.Writable()
	}
	enginetest.Require(t, "runc", err)
	path = fmt.Sprintf("/tare-test-%d", os.Getpid())
	t.Cleanup(func() {
		if err := h.Remove(context.Background(), path); err != nil {
			t.Error(err)
		}
	})
	return h, path
}
