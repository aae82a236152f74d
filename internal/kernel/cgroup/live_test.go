package cgroup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/cgroup/cgrouptest"
	"github.com/tare-bench/tare/internal/kernel/netns"
)

func start(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestLife(t *testing.T) {
	h, top := cgrouptest.Live(t)
	path := top + "/a"
	want := cgroup.Limits{CPUs: 0.5, CPUSet: "0", Memory: 64 << 20, Pids: 20}
	if err := h.Create(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Limits(path); got != want || err != nil {
		t.Errorf("Limits = %+v, %v, want %+v", got, err, want)
	}
	cmd := start(t, "sleep", "1000")
	if err := h.Attach(path, cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	for c, got := range must(h.PathOf(cmd.Process.Pid)) {
		if _, err := h.Dir("/", c); err == nil && c != "" &&
			slices.Contains([]string{"cpu", "cpuset", "memory", "pids"}, c) && got != path {
			t.Errorf("PathOf: %s = %s, want %s", c, got, path)
		}
	}
	if got, err := h.Procs(top); !slices.Equal(got, []int{cmd.Process.Pid}) || err != nil {
		t.Errorf("Procs = %v, %v", got, err)
	}
	if s, err := h.Stat(path); err != nil || s.CPU < 0 || s.MemoryCurrent < 0 {
		t.Errorf("Stat = %+v, %v", s, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := h.Kill(t.Context(), top); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process was not killed")
	}
	for range 2 { // the second finds nothing
		if err := errors.Join(h.Kill(t.Context(), top), h.Remove(t.Context(), top)); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v, want fs.ErrNotExist", err)
	}
}

func TestRemoveBusy(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if err := h.Create(path, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, "sleep", "1000")
	if err := h.Attach(path, cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.Remove(ctx, path); !errors.Is(err, cgroup.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Remove with a process inside: %v, want ErrBusy and the context's", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

func TestKillForks(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if err := h.Create(path, cgroup.Limits{Pids: 30}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "read x; while :; do sleep 0.01 & done")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Attach(path, cmd.Process.Pid), stdin.Close()); err != nil {
		t.Error(err)
	}
	for n := 1; n < 3; n = len(must(h.Procs(path))) {
		time.Sleep(time.Millisecond)
	}
	go func() { _ = cmd.Wait() }() // killed
	if err := h.Kill(t.Context(), path); err != nil {
		t.Error(err)
	}
}

// A process is moved to where another one is, and leaves groups that it was in.
func TestAttachBeside(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if err := h.Create(path, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	here, there := start(t, "sleep", "1000"), start(t, "sleep", "1000")
	for _, cmd := range []*exec.Cmd{here, there} {
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	if err := h.Attach(path, here.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := h.AttachBeside(there.Process.Pid, here.Process.Pid); err != nil {
		t.Fatal(err)
	}
	want, got := must(h.PathOf(here.Process.Pid)), must(h.PathOf(there.Process.Pid))
	if !maps.Equal(got, want) {
		t.Errorf("beside a process in %v, the other one is in %v", want, got)
	}
	if err := h.AttachBeside(here.Process.Pid, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if got := must(h.PathOf(here.Process.Pid)); !maps.Equal(got, must(h.PathOf(0))) {
		t.Errorf("beside this process, which is in %v, the other one is in %v", must(h.PathOf(0)), got)
	}
}

// A process that a thread of a group starts is in the group; tare is not. The group is not frozen before the thread has
// ended, nor empty, but its other processes are killed.
func TestAttachThread(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if h.Version() == cgroup.V2 {
		t.Skip("version 2 has no groups of single threads here")
	}
	if err := h.Create(path, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	cmd, leave := exec.Command("sleep", "1000"), make(chan struct{})
	started := make(chan error)
	go func() {
		ended := netns.Elsewhere(func() (bool, error) {
			err := errors.Join(h.AttachThread(path, syscall.Gettid()), cmd.Start())
			started <- err
			<-leave
			return false, nil
		})
		started <- ended
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if got := must(h.PathOf(cmd.Process.Pid))["memory"]; got != path {
		t.Errorf("the process is in %q, want %q", got, path)
	}
	if got := must(h.PathOf(0))["memory"]; got == path {
		t.Errorf("this process is in %q itself", got)
	}
	soon := func(do func(context.Context, string) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return do(ctx, path)
	}
	if err := soon(h.Freeze); !errors.Is(err, cgroup.ErrBusy) {
		t.Errorf("Freeze with a thread of tare in the group: %v, want ErrBusy", err)
	}
	if err := soon(h.Kill); !errors.Is(err, cgroup.ErrBusy) {
		t.Errorf("Kill with a thread of tare in the group: %v, want ErrBusy", err)
	}
	_ = cmd.Wait() // killed
	close(leave)
	if err := errors.Join(<-started, h.Freeze(t.Context(), path), h.Kill(t.Context(), path)); err != nil {
		t.Error(err)
	}
}

func TestAttachGone(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if err := h.Create(path, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, "true")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := h.Attach(path, cmd.Process.Pid); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("Attach of a process that is gone: %v, want ESRCH", err)
	}
}

func TestOpenStartsInside(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if err := h.Create(path, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	dir, err := h.Open(path)
	if errors.Is(err, cgroup.ErrController) {
		t.Skip("no version 2 hierarchy here")
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := errors.Join(cmd.Start(), dir.Close()); err != nil {
		t.Fatal(err)
	}
	if got := must(h.PathOf(cmd.Process.Pid))[""]; got != path {
		t.Errorf("PathOf = %q, want %q", got, path)
	}
	go func() { _ = cmd.Wait() }() // killed
	if err := h.Kill(t.Context(), path); err != nil {
		t.Error(err)
	}
}

// Runs that begin and end at any time share the group above theirs, and the
// last of them takes it away.
func TestHoldAndPruneTogether(t *testing.T) {
	h, top := cgrouptest.Live(t)
	errs := make(chan error)
	const many = 8
	for i := range many {
		go func() {
			run := fmt.Sprintf("%s/%d", top, i)
			var err error
			for range 20 {
				err = errors.Join(err,
					h.CreateEverywhere(run), h.Create(run+"/a", cgroup.Limits{CPUSet: "0"}), h.Prune(run+"/b"),
					h.Remove(context.Background(), run+"/a"), h.Prune(run))
			}
			errs <- err
		}()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	dirs, err := filepath.Glob("/sys/fs/cgroup/*" + top)
	if err != nil || len(dirs) > 0 {
		t.Errorf("left: %q, %v", dirs, err)
	}
}

func TestHold(t *testing.T) {
	h, path := cgrouptest.Live(t)
	if err := errors.Join(h.CreateEverywhere(path), h.CreateEverywhere(path), h.Prune(path+"/none")); err != nil {
		t.Fatal(err)
	}
	if got, err := h.List("/"); err != nil || slices.Contains(got, path) {
		t.Errorf("List after Prune of what is below: %q, %v; want it pruned", got, err)
	}
}

func TestKillProcess(t *testing.T) {
	cmd := start(t, "sleep", "1000")
	pid := cmd.Process.Pid
	if err := cgroup.KillProcess(pid, func() bool { return false }); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process that is not meant is gone: %v", err)
	}
	if err := cgroup.KillProcess(pid, func() bool { return true }); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	if err := cgroup.KillProcess(pid, func() bool { return true }); err != nil {
		t.Errorf("of one that is gone: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestCreateTogether(t *testing.T) {
	// The groups above are made by whoever is first, and must work for all.
	h, top := cgrouptest.Live(t)
	errs := make(chan error)
	const many = 8
	for i := range many {
		go func() {
			path := fmt.Sprintf("%s/shared/%d", top, i)
			errs <- errors.Join(h.Create(path, cgroup.Limits{CPUSet: "0"}), h.Remove(context.Background(), path))
		}()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
