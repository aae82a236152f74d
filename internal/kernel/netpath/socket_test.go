package netpath_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// The path by a socket is known of the process that listens there, and of no other.
func TestToSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // only the socket is in it
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing was written
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill() // it sleeps
		_ = other.Wait()         // with the status of a killed process
	})
	for first, want := range map[int][]string{os.Getpid(): {netpath.Socket}, 0: {netpath.Unknown}, other.Process.Pid: nil} {
		path, err := netpath.ToSocket(t.Context(), socket, first)
		if diff := cmp.Diff(want, path); diff != "" || want == nil && !errors.Is(err, bench.ErrMismatch) {
			t.Errorf("ToSocket of process %d: %v (-want +got):\n%s", first, err, diff)
		}
	}
	if path, err := netpath.ToSocket(t.Context(), socket+"2", os.Getpid()); err == nil {
		t.Errorf("ToSocket where nothing listens = %q", path)
	}
}
