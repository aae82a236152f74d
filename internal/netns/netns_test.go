package netns_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/netns"
)

// other starts a process in a network namespace of its own.
func other(t *testing.T) int {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace takes root")
	}
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
	})
	return cmd.Process.Pid
}

func names(t *testing.T) (all []string) {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Error(err)
	}
	for _, i := range list {
		all = append(all, i.Name)
	}
	return all
}

// What is done there is done there, from however many goroutines, and nothing
// else ever sees it.
func TestIn(t *testing.T) {
	pid := other(t)
	link := func() string {
		l, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Error(err)
		}
		return l
	}
	ours, here := link(), len(names(t))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			var there []string
			if err := netns.In(pid, func() error { there = names(t); return nil }); err != nil {
				t.Error(err)
			}
			if len(there) == 0 || len(there) >= here {
				t.Errorf("interfaces there: %q, of which this namespace has %d", there, here)
			}
			if got := link(); got != ours {
				t.Errorf("this process is in %s, want %s", got, ours)
			}
			if got := len(names(t)); got != here {
				t.Errorf("afterwards %d interfaces are seen, want %d", got, here)
			}
		})
	}
	wg.Wait()
}

func TestInErrors(t *testing.T) {
	pid := other(t)
	failure := errors.New("failure")
	if err := netns.In(pid, func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("In = %v, want what was done to have failed", err)
	}
	if err := netns.In(1<<30, func() error { return failure }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("In of no process = %v, want fs.ErrNotExist", err)
	}
}
