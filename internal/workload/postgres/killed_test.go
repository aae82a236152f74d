package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A process of the server that is killed ends its part with the cause, and the earlier parts keep
// their values. A killed server leaves nothing on the host.
func TestKilled(t *testing.T) {
	for name, tt := range map[string]struct {
		victim func(pid int) bool
		want   string
	}{
		"a process that serves a client": {servesClient, "signal 9"},
		"the server":                     {isPostmaster, "first process of the server"},
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(t, "native")
			before := sharedMemory(t)
			done := make(chan error, 1)
			go func() { done <- killWhen(tt.victim, 30*time.Second) }()
			s := measure(t, e, bench.Spec{}, 1, "parts", "load,read1", "time", "3s", "script", "tpcb-like")[0]
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if s.Outcome != bench.Failed || !strings.Contains(s.Reason, tt.want) {
				t.Errorf("%s: %s\nwant %q", s.Outcome, s.Reason, tt.want)
			}
			if diff := cmp.Diff(before, sharedMemory(t)); diff != "" {
				t.Errorf("shared memory (-before +after):\n%s", diff)
			}
		})
	}
}

// killWhen kills the first process that is a victim.
func killWhen(victim func(pid int) bool, within time.Duration) error {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		dirs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err == nil && victim(pid) {
				time.Sleep(300 * time.Millisecond) // it is at work by then
				return unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	return errors.New("no process to be killed was seen")
}

// servesClient reports whether a process of the server serves a client that is at work.
func servesClient(pid int) bool { return ours(pid) && isBusy(pid) }

// isPostmaster reports whether a process is the server itself, with a client that is at work.
func isPostmaster(pid int) bool {
	if !ours(pid) || !strings.Contains(cmdline(pid), "-D") || !strings.Contains(cmdline(pid), "/pgdata") {
		return false
	}
	for _, child := range children(pid) {
		if n, err := strconv.Atoi(child); err == nil && isBusy(n) {
			return true
		}
	}
	return false
}

// ours reports whether a process works in a cluster of a trial of this test's.
func ours(pid int) bool {
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || filepath.Base(at) != "pgdata" {
		return false
	}
	own, err := proc.Descendants("/", os.Getpid())
	return err == nil && slices.Contains(own, pid)
}

// isBusy reports whether a process of the server executes a statement that writes.
func isBusy(pid int) bool {
	words := []string{"INSERT", "UPDATE", "COMMIT", "BEGIN", "idle in transaction"}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(cmdline(pid), word) })
}

func cmdline(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(text), "\x00", " ")
}

func children(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return strings.Fields(string(text))
}
