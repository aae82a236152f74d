package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Deleting through a mount would delete what is not tare's.
func TestMounted(t *testing.T) {
	k, _ := keeper(t)
	d := take(t, k, "")
	point := filepath.Join(d.Path, "mounted")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", point, "tmpfs", 0, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) }) // for a test that fails
	file := filepath.Join(point, "precious")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err == nil {
		t.Error("Remove of a directory with a mount in it succeeds")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file was deleted through a mount: %v", err)
	}
	if err := unix.Unmount(point, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
}
