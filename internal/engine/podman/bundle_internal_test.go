package podman

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
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
