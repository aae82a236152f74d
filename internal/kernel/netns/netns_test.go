package netns_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/netns"
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

// namespace is the network namespace of this thread, or of the process.
func namespace(t *testing.T, who string) string {
	t.Helper()
	l, err := os.Readlink("/proc/" + who + "/ns/net")
	if err != nil {
		t.Error(err)
	}
	return l
}

// What is done there is done there, from however many goroutines, and nothing
// else ever sees it.
func TestIn(t *testing.T) {
	theirs := other(t)
	ours, there := namespace(t, "self"), namespace(t, strconv.Itoa(theirs))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			var in string
			if err := netns.In(theirs, func() error { in = namespace(t, "thread-self"); return nil }); err != nil {
				t.Error(err)
			}
			if in != there || in == ours {
				t.Errorf("done in %s, want %s", in, there)
			}
			for _, who := range []string{"self", "thread-self"} {
				if got := namespace(t, who); got != ours {
					t.Errorf("%s is in %s afterwards, want %s", who, got, ours)
				}
			}
		})
	}
	wg.Wait()
	var in string
	if err := netns.In(os.Getpid(), func() error { in = namespace(t, "thread-self"); return nil }); err != nil ||
		in != ours {
		t.Errorf("In this process: %s, %v; want %s", in, err, ours)
	}
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
