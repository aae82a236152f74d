package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A relay counts for the container that it passes packets to, as it says itself.
// What does not say so is taken for the container's.
func TestRelaysOfOthers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "docker-proxy")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho\nread end\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		want bool
	}{
		{"of its own", []string{"-proto", "tcp", "-container-ip", "127.0.0.1", "-container-port", "80"}, true},
		{"of another", []string{"-proto", "tcp", "-container-ip", "192.0.2.7", "-container-port", "80"}, false},
		{"that does not tell", []string{"-proto", "tcp"}, true},
		{"of no address", []string{"-container-ip", "nowhere"}, true},
		{"that ends early", []string{"-container-ip"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pid := begin(t, exec.Command(program, test.args...))
			if got := slices.Contains(relaysSince(0, os.Getpid()), pid); got != test.want {
				t.Errorf("counted: %v, want %v", got, test.want)
			}
		})
	}
}

// begin starts a program that says a line once it runs, and waits for that.
func begin(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // "read" tells that its input ended
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
