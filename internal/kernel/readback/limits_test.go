package readback_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/cgroup/cgrouptest"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// asked is not a whole number of pages of any size, as people's megabytes are not.
var asked = bench.Limits{CPUs: 0.5, CPUSet: "0", Memory: 50_000_001, Pids: 20}

// processInGroup starts a process in a group of its own, with the limits asked for.
func processInGroup(t *testing.T) (h *cgroup.Hierarchy, cmd *exec.Cmd, group string) {
	t.Helper()
	h, group = cgrouptest.Live(t)
	l := cgroup.Limits{CPUs: asked.CPUs, CPUSet: asked.CPUSet, Memory: asked.Memory, Pids: asked.Pids}
	if err := h.Create(group, l); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd) })
	if err := h.Attach(group, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return h, cmd, group
}

// end kills a process and waits for its end. Twice is fine.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it is dead, or then is
	_ = cmd.Wait()         // it was killed, or was waited for before
}

func TestLimits(t *testing.T) {
	h, cmd, group := processInGroup(t)
	pid := cmd.Process.Pid
	got, err := readback.Limits(h, pid, group, asked)
	if diff := cmp.Diff(asked, got); err != nil || diff != "" {
		t.Errorf("Limits: %v (-want +got):\n%s", err, diff)
	}
	other := asked
	other.Memory *= 2
	if got, err := readback.Limits(h, pid, group, other); err != nil ||
		got.Memory != asked.Memory-asked.Memory%int64(os.Getpagesize()) {
		t.Errorf("Limits where another was asked for = %+v, %v; want the kernel's", got, err)
	}
	for name, pid := range map[string]int{"its parent": os.Getpid(), "itself": pid} {
		if _, err := readback.Limits(h, pid, group+"-of-another", asked); !errors.Is(err, bench.ErrMismatch) {
			t.Errorf("Limits of %s in another group: %v, want bench.ErrMismatch", name, err)
		}
	}
	end(cmd)
	for _, pid := range []int{0, pid, nobody} {
		if _, err := readback.Limits(h, pid, group, asked); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Limits of process %d, which is not there: %v", pid, err)
		}
	}
}

func TestLimitsSeen(t *testing.T) {
	_, cmd, group := processInGroup(t)
	pid, word := cmd.Process.Pid, bench.Limits{Memory: 1, Pids: 2}
	check := func(name string, pid int, id string, want bench.Limits) {
		t.Helper()
		got, err := readback.LimitsSeen(pid, id, asked, word)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	check("of the group's name", pid, group[1:], asked)
	check("in whichever group", pid, "", asked)
	check("of another name", pid, group+"-of-another", word)
	check("in another group", os.Getpid(), group, word)
	end(cmd)
	check("ended", pid, "", word)
	check("none", 0, "", word)
}

func TestGroup(t *testing.T) {
	h, cmd, group := processInGroup(t)
	pid := cmd.Process.Pid
	if got, err := readback.CgroupPath(h, pid); err != nil || got != group {
		t.Errorf("Group = %q, %v; want %q", got, err, group)
	}
	if !readback.InGroupOf(h, pid, group[1:]) || readback.InGroupOf(h, pid, group+"-of-another") ||
		readback.InGroupOf(h, os.Getpid(), group) {
		t.Error("InGroupOf does not tell the group's process from others")
	}
	end(cmd)
	for _, pid := range []int{0, pid} {
		if got, err := readback.CgroupPath(h, pid); !errors.Is(err, fs.ErrNotExist) || readback.InGroupOf(h, pid, "") {
			t.Errorf("Group of process %d, which is not there, = %q, %v", pid, got, err)
		}
	}
}
