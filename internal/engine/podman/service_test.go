package podman

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An ordinary user's podman starts itself once more. Where the first process is ended
// before it passes signals on, the second one is ended all the same.
func TestServiceWithASecondProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), dirPrefix+"20261123-081309-7smj"+dirInfix+"1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const second = `exec -a podman bash -c 'trap "" TERM; while :; do sleep 1; done' system "$@"`
	program := filepath.Join(t.TempDir(), "podman")
	if err := os.WriteFile(program, []byte("#!/bin/bash\n("+second+") &\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &service{
		dir: dir, socket: filepath.Join(dir, "s"), argv: []string{program, "service", "unix://" + filepath.Join(dir, "s")},
	}
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	serving := func() (n int) {
		all, err := servicesOf()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.dir == dir {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); serving() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second process does not come up")
		}
	}
	s.down(t.Context())
	if n := serving(); n != 0 {
		t.Errorf("%d processes of the service are left", n)
	}
}

// The service's directory is made again after another tare has removed it, and never is one that
// somebody else has put there.
func TestServiceDirectoryIsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	for range 2 {
		if err := makeOwn(dir); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := makeOwn(link); err == nil {
		t.Error("a link is taken for the directory")
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := makeOwn(dir); err == nil {
		t.Error("a directory of another user is taken")
	}
}
