package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/cgroup/cgrouptest"
)

// What a build has left is removed only when nothing works for that build any more; others do not matter.
func TestAwaitBuilds(t *testing.T) {
	dir := t.TempDir()
	begin := func(dir, seconds string) *os.Process {
		c := exec.Command("sleep", seconds)
		c.Env = append(os.Environ(), temporary+"="+dir)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c.Process
	}
	other, own := begin(t.TempDir(), "60"), begin(dir, "0.5")
	if err := awaitBuilds(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if pid, err := syscall.Wait4(own.Pid, nil, syscall.WNOHANG, nil); pid != own.Pid {
		t.Errorf("the build still works: %v", err)
	}
	if pid, err := syscall.Wait4(other.Pid, nil, syscall.WNOHANG, nil); pid != 0 {
		t.Errorf("the other build has ended: %v", err)
	}
	_ = other.Kill() // it is this test's own
	_, _ = other.Wait()
}

// A runtime that is ended before it has written its state leaves a directory and control groups. They go with the
// bundle, and so does a bundle of which the runtime knows nothing.
func TestHalfMadeBundle(t *testing.T) {
	h, _ := cgrouptest.Live(t)
	crun, err := exec.LookPath("crun")
	enginetest.Require(t, "crun", err)
	c := newClient("podman", "", nil)
	c.Host.OCIRuntime.Path = crun
	dir, half := t.TempDir(), fmt.Sprintf("buildah%d", os.Getpid())
	state, group := "/run/crun/buildah-"+half, "/buildah-"+half
	t.Cleanup(func() { _ = errors.Join(os.RemoveAll(state), h.Remove(context.Background(), group)) })
	for _, made := range []string{filepath.Join(dir, half), filepath.Join(dir, half+"0"), state} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Create(group, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	some, err := c.removeBundles(t.Context(), dir)
	if !some || err != nil {
		t.Errorf("something %v, %v", some, err)
	}
	left, _ := os.ReadDir(dir)
	if _, err := os.Stat(state); err == nil || len(left) > 0 {
		t.Errorf("left: %v, state %v", left, err)
	}
	if _, err := h.Limits(group); err == nil {
		t.Error("its control groups are left")
	}
	if some, err := c.removeBundles(t.Context(), dir); some || err != nil {
		t.Errorf("once more: something %v, %v", some, err)
	}
}
