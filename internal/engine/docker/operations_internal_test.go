package docker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Where another process listens for the engine, as systemd does, the engine is the dockerd that it has started.
func TestEngineBehind(t *testing.T) {
	if got, err := engineBehind(os.Getpid()); err != nil || got != os.Getpid() {
		t.Errorf("%d, %v before there is a dockerd", got, err)
	}
	program := filepath.Join(t.TempDir(), "dockerd")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nread line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), cmd.Wait()) }() // it only reads
	for _, listens := range []int{os.Getpid(), cmd.Process.Pid} {
		if got, err := engineBehind(listens); err != nil || got != cmd.Process.Pid {
			t.Errorf("%d, %v where %d listens, want %d", got, err, listens, cmd.Process.Pid)
		}
	}
	if got, err := engineBehind(0); err != nil || got != 0 {
		t.Errorf("%d, %v where nobody is known", got, err)
	}
}
