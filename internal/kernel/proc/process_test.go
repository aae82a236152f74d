package proc_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

const tree = "testdata/processes"

func TestFind(t *testing.T) {
	got, err := proc.Find(tree, 40)
	want := proc.Process{PID: 40, Parent: 1, Group: 40, State: 'S', Start: 500}
	if got != want || err != nil {
		t.Errorf("Find = %+v, %v, want %+v", got, err, want)
	}
	if _, err := proc.Find(tree, 99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find of no process: %v, want fs.ErrNotExist", err)
	}
}

func TestMarked(t *testing.T) {
	got, err := proc.Marked(tree, "TARE_RUN")
	want := []proc.MarkedProcess{
		{proc.Process{PID: 40, Parent: 1, Group: 40, State: 'S', Start: 500}, "run-1"},
		{proc.Process{PID: 41, Parent: 40, Group: 41, State: 'S', Start: 510}, "run-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestFindMarked(t *testing.T) {
	if p, ok := proc.FindMarked(tree, 41, "TARE_RUN"); !ok || p.PID != 41 || p.Value != "run-1" {
		t.Errorf("FindMarked = %+v, %v", p, ok)
	}
	for _, pid := range []int{1, 42, 99} { // not marked, without an environment, absent
		if p, ok := proc.FindMarked(tree, pid, "TARE_RUN"); ok {
			t.Errorf("FindMarked(%d) = %+v", pid, p)
		}
	}
}

func TestMarkedLive(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), "TARE_PROC_TEST=x=y")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got, err := proc.Marked("/", "TARE_PROC_TEST")
	if len(got) != 1 || err != nil || got[0].PID != cmd.Process.Pid || got[0].Value != "x=y" ||
		got[0].Parent != os.Getpid() {
		t.Errorf("Marked = %+v, %v", got, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

func TestMounts(t *testing.T) {
	got, err := proc.Mounts(tree, 40)
	want := []proc.Mount{
		{"259:2", "/", "/", "rw,relatime", "ext4", "/dev/sda1", "rw,errors=remount-ro"},
		{"0:45", "/", "/mnt/with blank", "ro,nosuid", "tmpfs", "", "rw,size=64k"},
		{"0:46", "/sub/dir", "/data", "rw", "overlay", "overlay", `rw,lowerdir=/a\072b:/c,upperdir=/u,workdir=/w`},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for i, readOnly := range []bool{false, true, false} {
		if got[i].ReadOnly() != readOnly {
			t.Errorf("ReadOnly of %s = %v", got[i].Point, !readOnly)
		}
	}
	if lower, ok := got[2].Option("lowerdir"); lower != "/a:b:/c" || !ok {
		t.Errorf("Option(lowerdir) = %q, %v", lower, ok)
	}
	if got, ok := got[0].Option("size"); ok {
		t.Errorf("an option that is not there: %q", got)
	}
	live, err := proc.Mounts("/", 0)
	if len(live) == 0 || err != nil {
		t.Errorf("Mounts of this process: %v, %v", live, err)
	}
	if _, err := proc.Mounts(tree, 99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Mounts of no process: %v, want fs.ErrNotExist", err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 4095, 4096, 4097, 10_000} {
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(name, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := proc.ReadFile(name, 10_000); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ReadFile of %d bytes gave %d: %v", size, len(got), err)
		}
		if _, err := proc.ReadFile(name, size-1); err == nil && size > 0 {
			t.Errorf("ReadFile of %d bytes with limit %d succeeds", size, size-1)
		}
	}
	if _, err := proc.ReadFile(name+".not", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of no file: %v, want fs.ErrNotExist", err)
	}
}

func TestAllLeavesOutWhatIsNoProcess(t *testing.T) {
	got, err := proc.All(tree)
	if len(got) != 6 || err != nil {
		t.Errorf("All = %v, %v, want 6", got, err)
	}
	if _, err := proc.All(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("All of an empty tree: %v", err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/proc/7", 0o755),
		os.WriteFile(dir+"/proc/7/stat", []byte("7 (x) S"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.All(dir); err == nil || !strings.Contains(err.Error(), dir+"/proc/7/stat") {
		t.Errorf("All with a torn file: %v, want its name", err)
	}
}
