package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// tree is a captured tree where the test may write. Nobody does there what is
// written to a control file, so the test says beforehand what will be read.
func tree(t *testing.T, name string) (*Hierarchy, string) {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	h, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	return h, filepath.Join(root, "sys/fs/cgroup")
}

func TestFreeze(t *testing.T) {
	const group = "/tare/run1/a"
	for _, test := range []struct{ tree, file, frozen, thawed, events string }{
		{"hybrid", "freezer/tare/run1/a/freezer.state", "FROZEN", "THAWED", ""},
		{"v2", "tare/run1/a/cgroup.freeze", "1", "0", "tare/run1/a/cgroup.events"},
	} {
		h, root := tree(t, test.tree)
		say := func(events string) {
			if test.events != "" {
				write(t, filepath.Join(root, test.events), events)
			}
		}
		say("populated 1\nfrozen 1\n")
		if err := h.Freeze(t.Context(), group); err != nil || read(t, filepath.Join(root, test.file)) != test.frozen {
			t.Errorf("%s: Freeze = %v and writes %q, want %q", test.tree, err,
				read(t, filepath.Join(root, test.file)), test.frozen)
		}
		say("populated 1\nfrozen 0\n")
		if err := h.Thaw(t.Context(), group); err != nil || read(t, filepath.Join(root, test.file)) != test.thawed {
			t.Errorf("%s: Thaw = %v and writes %q, want %q", test.tree, err,
				read(t, filepath.Join(root, test.file)), test.thawed)
		}
		if err := h.Thaw(t.Context(), group+"/none"); err != nil {
			t.Errorf("%s: Thaw of a group that does not exist: %v", test.tree, err)
		}
	}
}

// A process that hangs in the kernel does not stand still.
func TestFreezeHangs(t *testing.T) {
	h, _ := tree(t, "v2")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.Freeze(ctx, "/tare/run1/a"); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Freeze = %v, want ErrBusy and the context's error", err)
	}
}

func TestFreezeRefuses(t *testing.T) {
	h, _ := tree(t, "hybrid")
	for name, err := range map[string]error{
		"Freeze": h.Freeze(t.Context(), "/"), "Thaw": h.Thaw(t.Context(), "/"), "Freeze of tare": freezeSelf(t, h),
	} {
		if !errors.Is(err, ErrPath) {
			t.Errorf("%s: %v, want ErrPath", name, err)
		}
	}
	v1, _ := tree(t, "v1") // which has no freezer mounted
	if err := v1.Freeze(t.Context(), "/tare/run1/a"); !errors.Is(err, ErrController) {
		t.Errorf("Freeze without a freezer: %v, want ErrController", err)
	}
}

func freezeSelf(t *testing.T, h *Hierarchy) error {
	t.Helper()
	dir, err := h.Dir("/tare/run1/a", "memory")
	if err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprint(os.Getpid())
	write(t, filepath.Join(dir, "cgroup.procs"), self+"\n")
	proc := filepath.Join(h.root, "proc", self)
	if err := os.MkdirAll(proc, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(proc, "cgroup"), "9:memory:/tare/run1/a\n")
	return h.Freeze(t.Context(), "/tare/run1/a")
}

// spinning starts a process that never rests, in a group of its own.
func spinning(t *testing.T) (h *Hierarchy, group string, ticks func() string) {
	t.Helper()
	h, err := Detect("/")
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Writable(); err != nil {
		t.Skip(err)
	}
	group = fmt.Sprintf("/tare-freeze-%d", os.Getpid())
	if err := h.Create(group, Limits{}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		go func() { _ = cmd.Wait() }() // killed
		if err := errors.Join(h.Kill(context.Background(), group), h.Remove(context.Background(), group)); err != nil {
			t.Error(err)
		}
	})
	if err := h.Attach(group, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return h, group, func() string { return read(t, fmt.Sprintf("/proc/%d/schedstat", cmd.Process.Pid)) }
}

// The end of the test kills what is frozen.
func TestFreezeLive(t *testing.T) {
	h, group, ticks := spinning(t)
	for range 3 {
		if err := h.Freeze(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		wantFrozen(t, ticks)
		if err := h.Thaw(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		wantRunning(t, ticks)
	}
	if err := h.Freeze(t.Context(), group); err != nil {
		t.Fatal(err)
	}
}

// What somebody froze by hand is killed all the same: the group of a run, or one
// below that of a container.
func TestKillFrozenByHand(t *testing.T) {
	for _, frozen := range []string{"above", "below"} {
		t.Run(frozen, func(t *testing.T) {
			h, err := Detect("/")
			if errors.Is(err, ErrNone) {
				t.Skip(err)
			}
			if err = errors.Join(err, h.Writable()); err != nil {
				t.Skip(err)
			}
			top := fmt.Sprintf("/tare-frozen-%d", os.Getpid())
			group, kill := top+"/a", top+"/a"
			if frozen == "below" {
				kill = top
			}
			if err := h.Create(group, Limits{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				if err := errors.Join(h.Thaw(ctx, top), h.Thaw(ctx, group), h.Kill(ctx, top), h.Remove(ctx, top)); err != nil {
					t.Error(err)
				}
			})
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if err := h.Attach(group, cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			if err := h.Freeze(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			if frozen == "above" { // and there alone
				if err := h.Freeze(t.Context(), top); err != nil {
					t.Fatal(err)
				}
				f, err := h.freezer(group)
				if err = errors.Join(err, f.set(false)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := h.Kill(ctx, kill); err != nil {
				t.Error(err)
			}
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the process ended by itself")
				}
			case <-time.After(5 * time.Second):
				t.Error("the process lives")
			}
		})
	}
}

// A hybrid machine shows the freezer of version 2 as well.
func TestFreezeLiveVersion2(t *testing.T) {
	h, group, ticks := spinning(t)
	p, err := h.controllerDir(group, "")
	if err != nil {
		t.Skip(err)
	}
	f := freezer(p)
	if err := errors.Join(f.set(true), f.await(t.Context(), true)); err != nil {
		t.Fatal(err)
	}
	wantFrozen(t, ticks)
	if err := errors.Join(f.set(false), f.await(t.Context(), false)); err != nil {
		t.Fatal(err)
	}
	wantRunning(t, ticks)
}

func wantFrozen(t *testing.T, ticks func() string) {
	t.Helper()
	before := ticks()
	time.Sleep(20 * time.Millisecond)
	if after := ticks(); after != before {
		t.Errorf("a frozen process used the CPU: %s, then %s", before, after)
	}
}

func wantRunning(t *testing.T, ticks func() string) {
	t.Helper()
	before := ticks()
	for range 1000 {
		if ticks() != before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("a process that was thawed does not go on")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
