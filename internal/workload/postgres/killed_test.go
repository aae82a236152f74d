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

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// A process of the server that is killed ends its part with the cause, and the earlier parts keep
// their values. A killed server leaves nothing on the host.
func TestKilled(t *testing.T) {
	for name, victim := range map[string]func(pid int) bool{
		"a process that serves a client": isBusy,
		"the server":                     isPostmaster,
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(t, "native")
			before := sharedMemory(t)
			done := make(chan error, 1)
			own, err := filepath.EvalSymlinks(filepath.Dir(t.TempDir())) // with everything of this test
			if err != nil {
				t.Fatal(err)
			}
			go func() { done <- killWhen(own, victim, 30*time.Second) }()
			s := measure(t, e, bench.Spec{}, 1, "parts", "load,read1", "time", "3s", "script", "tpcb-like")[0]
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			// Which of the two is said first depends on who notices first.
			said := strings.Contains(s.Reason, "signal 9") || strings.Contains(s.Reason, "was killed or crashed")
			if s.Outcome != bench.Failed || !said {
				t.Errorf("%s: %s\nwant that a process was killed", s.Outcome, s.Reason)
			}
			nothingLeft(t, before)
			if left := processesBelow(own); len(left) > 0 {
				t.Errorf("processes are left behind: %q", left)
			}
		})
	}
}

// processesBelow lists the processes of clusters below a directory.
func processesBelow(dir string) (all []string) {
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	for _, entry := range entries {
		if pid, err := strconv.Atoi(filepath.Base(entry)); err == nil && works(pid, dir) {
			all = append(all, cmdline(pid))
		}
	}
	return all
}

// killWhen kills the first process of a cluster below dir that is a victim: other servers of this host are
// somebody else's.
func killWhen(dir string, victim func(pid int) bool, within time.Duration) error {
	return whenWorking(dir, victim, within, func(pid int) error { return unix.Kill(pid, unix.SIGKILL) })
}

// whenWorking does something to the first process of a cluster below dir that is meant, once it is at work.
func whenWorking(dir string, meant func(pid int) bool, within time.Duration, do func(pid int) error) error {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		dirs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, entry := range dirs {
			pid, err := strconv.Atoi(filepath.Base(entry))
			if err == nil && works(pid, dir) && meant(pid) {
				time.Sleep(300 * time.Millisecond) // it is at work by then
				return do(pid)
			}
		}
	}
	return errors.New("no process of the server was seen at work")
}

// isPostmaster reports whether a process is the server itself, with a client that is at work.
func isPostmaster(pid int) bool {
	if !strings.Contains(cmdline(pid), "-D") || !strings.Contains(cmdline(pid), "/pgdata") {
		return false
	}
	for _, child := range children(pid) {
		if n, err := strconv.Atoi(child); err == nil && isBusy(n) {
			return true
		}
	}
	return false
}

// works reports whether a process works in a cluster of a trial below dir.
func works(pid int, dir string) bool {
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && filepath.Base(at) == "pgdata" && strings.HasPrefix(at, dir+"/")
}

// isBusy reports whether a process of the server serves a client and executes a statement that writes.
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

// nothingLeft wants no shared memory that was not there before, and stays: what other servers of this
// host have is gone when they are.
func nothingLeft(t *testing.T, before []string) {
	t.Helper()
	const within = 20 * time.Second
	left := slices.DeleteFunc(sharedMemory(t), func(one string) bool { return slices.Contains(before, one) })
	for end := time.Now().Add(within); len(left) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("left behind: %q", left)
			return
		}
		now := sharedMemory(t)
		left = slices.DeleteFunc(left, func(one string) bool { return !slices.Contains(now, one) })
	}
}

// sharedMemory lists what servers have left on this host.
func sharedMemory(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/dev/shm/PostgreSQL.*")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			files = append(files, strings.Join(fields[:4], " "))
		}
	}
	return files
}
