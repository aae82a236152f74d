package shm_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/shm"
)

// attach makes a System V segment and maps it, until the test ends.
func attach(t *testing.T) (id int, memory []byte) {
	t.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }) // it may be gone
	if memory, err = unix.SysvShmAttach(id, 0, 0); err != nil {
		t.Fatal(err)
	}
	return id, memory
}

// mapFile makes a file of /dev/shm and maps it.
func mapFile(t *testing.T) (name string, memory []byte) {
	t.Helper()
	f, err := os.CreateTemp(shm.Dir, "tare-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) }) // as above
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	memory, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name(), memory
}

// What a process has mapped is found, stays while it is used, and is then removed.
func TestObjects(t *testing.T) {
	id, segment := attach(t)
	name, file := mapFile(t)
	all, err := shm.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(o shm.Object) bool { return o.File == "" && o.ID == uint64(id) })
	j := slices.IndexFunc(all, func(o shm.Object) bool { return o.File == name })
	if i < 0 || j < 0 {
		t.Fatalf("Of this process = %v, want segment %d and %s", all, id, name)
	}
	for _, o := range []shm.Object{all[i], all[j]} {
		if err := o.Remove(); !errors.Is(err, shm.ErrUsed) || !o.Exists() {
			t.Errorf("%v is used, but Remove = %v", o, err)
		}
	}
	if err := errors.Join(unix.SysvShmDetach(segment), unix.Munmap(file)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []shm.Object{all[i], all[j]} {
		if err := errors.Join(o.Remove(), o.Remove()); err != nil || o.Exists() {
			t.Errorf("Remove of %v, twice: %v; it exists: %v", o, err, o.Exists())
		}
	}
}

// What a process has made and not mapped yet is its own, too.
func TestOpenFile(t *testing.T) {
	f, err := os.CreateTemp(shm.Dir, "tare-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) }) // it may be gone
	all, err := shm.Of(os.Getpid())
	i := slices.IndexFunc(all, func(o shm.Object) bool { return o.File == f.Name() })
	if err != nil || i < 0 {
		t.Fatalf("Of this process = %v, %v; want %s", all, err, f.Name())
	}
	if err := all[i].Remove(); !errors.Is(err, shm.ErrUsed) {
		t.Errorf("it is open, but Remove = %v", err)
	}
	if err := errors.Join(f.Close(), all[i].Remove()); err != nil || all[i].Exists() {
		t.Errorf("Remove = %v; it exists: %v", err, all[i].Exists())
	}
}

// What only has the same number or name stays.
func TestAnother(t *testing.T) {
	id, segment := attach(t)
	name, file := mapFile(t)
	all, err := shm.Of(os.Getpid())
	if err := errors.Join(err, unix.SysvShmDetach(segment), unix.Munmap(file)); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.File != name && (o.File != "" || o.ID != uint64(id)) {
			continue
		}
		other := o
		other.Change++
		if err := other.Remove(); err != nil || !o.Exists() {
			t.Errorf("Remove of another object than %v = %v; this one exists: %v", o, err, o.Exists())
		}
	}
}

// A file that another user has made and a process that has ended are no objects.
func TestNotOwn(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if all, err := shm.Of(ended.Process.Pid); err != nil || len(all) > 0 {
		t.Errorf("Of a process that has ended = %v, %v", all, err)
	}
	if os.Getuid() != 0 {
		t.Skip("the rest needs root")
	}
	name, _ := mapFile(t)
	if err := os.Chown(name, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	all, err := shm.Of(os.Getpid())
	if err != nil || slices.ContainsFunc(all, func(o shm.Object) bool { return o.File == name }) {
		t.Errorf("Of = %v, %v; want nothing that belongs to user 12345, such as %s", all, err, filepath.Base(name))
	}
}

// A file that nobody has mapped belongs to one that lists it, and to no other.
func TestListed(t *testing.T) {
	name, memory := mapFile(t)
	write := func(name string) string {
		if err := os.WriteFile(name, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(name) }) // it may be gone
		return name
	}
	base := name + ".x"
	list := base + ".7"
	if err := os.Rename(name, list); err != nil { // its mapping follows
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(list) })
	in, unaligned, out := write(base+".305419896"), write(base+".286397204"), write(base+".99")
	other := write(name + ".y.305419896")
	binary.NativeEndian.PutUint32(memory[16:], 305419896)
	binary.NativeEndian.PutUint32(memory[33:], 286397204)
	all, err := shm.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{list: true, in: true, unaligned: false, out: false, other: false} {
		if got := slices.ContainsFunc(all, func(o shm.Object) bool { return o.File == file }); got != want {
			t.Errorf("Of has %s: %v, want %v", file, got, want)
		}
	}
	if err := unix.Munmap(memory); err != nil {
		t.Fatal(err)
	}
}
