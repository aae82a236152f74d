package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// UnderWay reports whether a process of this machine measures a run now, or cleans up after
// it: whether it has the lock of the run's directory. Where there is no directory, or it
// is another user's, that cannot be seen, and it is not.
func (a *App) UnderWay(id string) bool {
	if a.state == "" {
		return false
	}
	name := filepath.Join(a.runDir(id), lockName)
	if mark, err := readMark(name); err != nil || mark != markOf(id) {
		return false
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // which gives the lock back
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// anyUnderWay reports whether any run of this state directory is under way.
func (a *App) anyUnderWay() bool {
	if a.state == "" {
		return false
	}
	entries, _ := os.ReadDir(filepath.Join(a.state, "runs")) // what cannot be listed cannot be seen
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return a.UnderWay(e.Name()) })
}
