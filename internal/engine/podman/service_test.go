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
	for deadline := time.Now().Add(10 * time.Second); serving() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second process does not come up")
		}
	}
	s.down(t.Context())
	if n := serving(); n != 0 {
		t.Errorf("%d processes of the service are left", n)
	}
}
