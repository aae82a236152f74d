package app

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Nothing is deleted through a mount, and what stays is not said to be removed.
func TestWorkDirUnderAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		return // who cannot mount has nothing mounted there
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, remove, err := WorkDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(below, unix.MNT_DETACH) }) // already done, if nothing failed
	file := filepath.Join(below, "kept")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err == nil {
		t.Error("removed, with something mounted below")
	}
	found, err := cleanWork(false)
	if err == nil || len(found) != 1 || found[0].Removed {
		t.Errorf("cleaned %+v, %v; want one that stays, with an error", found, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("deleted through a mount: %v", err)
	}
	if err := unix.Unmount(below, 0); err != nil {
		t.Fatal(err)
	}
	if found, err := cleanWork(false); err != nil || len(found) != 1 || !found[0].Removed {
		t.Errorf("cleaned %+v, %v; want one that is removed", found, err)
	}
}
