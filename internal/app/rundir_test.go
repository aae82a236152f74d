package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Whatever the umask, everybody can pass through the directory of a run: processes in it
// may be those of other users.
func TestRunDirIsPassable(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	state := filepath.Join(t.TempDir(), "a", "state")
	dir, err := makeRunDir(state, "20261122-000000-abcd")
	if err != nil {
		t.Fatal(err)
	}
	for at := dir.path; at != filepath.Dir(filepath.Dir(state)); at = filepath.Dir(at) {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v; want mode 0711", at, info.Mode(), err)
		}
	}
	if err := dir.remove(); err != nil {
		t.Error(err)
	}
}

// Who cleans while a run begins or ends never has it for a dead one.
func TestRunThatEndsIsNotDead(t *testing.T) {
	state := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			dir, err := makeRunDir(state, fmt.Sprintf("20261122-000000-%04d", i))
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 20 { // what takes time to delete
				if err := os.WriteFile(filepath.Join(dir.path, fmt.Sprint(n)), nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			if err := dir.remove(); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		dead, err := deadRuns(state)
		if err != nil || len(dead) > 0 {
			t.Errorf("dead: %v, %v; want none", ids(dead), err)
		}
		release(dead)
		half, err := partiallyRemoved(state)
		if err != nil || len(half) > 0 {
			t.Errorf("half gone: %v, %v; want none", ids(half), err)
		}
		release(half)
		select {
		case <-done:
			if left, err := os.ReadDir(filepath.Join(state, "runs")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			return
		default:
		}
	}
}

// What died while it deleted its directory is found at once, under the run's ID, and is
// no dead run: that one may have been taken up again.
func TestHalfGone(t *testing.T) {
	const id = "20261122-000000-abcd"
	state := t.TempDir()
	dir, err := makeRunDir(state, id)
	if err != nil {
		t.Fatal(err)
	}
	dir.unclaim()
	if half, err := partiallyRemoved(state); err != nil || len(half) > 0 {
		t.Errorf("while somebody deletes it: %v, %v", ids(half), err)
	}
	if err := dir.close(); err != nil { // as its death does
		t.Fatal(err)
	}
	half, err := partiallyRemoved(state)
	if err != nil || !slices.Equal(ids(half), []string{id}) {
		t.Fatalf("half gone: %v, %v, want %s", ids(half), err, id)
	}
	if dead, err := deadRuns(state); err != nil || len(dead) > 0 {
		t.Errorf("dead: %v, %v; want none", ids(dead), err)
	}
	if err := half[0].remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(state, "runs")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Who only looks whether a run is under way keeps nobody from taking it up.
func TestLookingDoesNotLock(t *testing.T) {
	const id = "20261122-000000-abcd"
	a := &App{state: t.TempDir()}
	dir, err := makeRunDir(a.state, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir.path); !errors.Is(err, errLocked) {
		t.Errorf("the directory of a run under way: %v, want %v", err, errLocked)
	}
	if err := dir.close(); err != nil {
		t.Fatal(err)
	}
	look, err := os.Open(filepath.Join(dir.path, lockName))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(look.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = look.Close() })
	locked, err := lockDir(dir.path)
	if err != nil {
		t.Fatalf("while somebody looks: %v", err)
	}
	if !a.UnderWay(id) {
		t.Error("the lock is not seen")
	}
	if err := locked.remove(); err != nil {
		t.Error(err)
	}
}
