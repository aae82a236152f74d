package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

const (
	lockName = "lock"
	// unclaimedPrefix begins the name of a directory that is not a run's yet.
	unclaimedPrefix = ".new-"
	// unclaimedAge is how old such a directory is at most while somebody makes it.
	unclaimedAge = time.Minute
	// removingPrefix begins the name of a directory that is deleted; the run's ID follows.
	removingPrefix = ".gone-"
)

// runDir is the private directory of a run, locked by who has it: the run's
// own process or, once that is dead, who cleans up after it.
type runDir struct {
	id   string
	path string
	lock *os.File
}

// newRunDir makes the directory of a run, and keeps its engines there.
func (a *App) newRunDir(id string, engines []Instance) (*runDir, error) {
	if a.state == "" {
		return nil, errNoState
	}
	dir, err := makeRunDir(a.state, id)
	if err != nil {
		return nil, &Problem{Kind: NoState, Err: err, Run: id}
	}
	if err := saveInstances(dir.path, engines); err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	return dir, nil
}

// makeRunDir makes and locks the directory of a run. It gets its name only
// once it is locked, so that nobody ever takes a run that begins for a dead
// one; and two that begin the same run cannot both have it.
func makeRunDir(state, id string) (*runDir, error) {
	runs := filepath.Join(state, "runs")
	if err := mkdirTraversable(runs); err != nil {
		return nil, fmt.Errorf("create the directory of runs: %w", err)
	}
	temporary, err := os.MkdirTemp(runs, unclaimedPrefix)
	if err != nil {
		return nil, fmt.Errorf("create the run's directory: %w", err)
	}
	lock, err := newLock(temporary, id)
	if err == nil {
		path := filepath.Join(runs, id)
		if err = errors.Join(os.Chmod(temporary, 0o711), os.Rename(temporary, path)); err == nil {
			return &runDir{id, path, lock}, nil
		}
		err = errors.Join(err, lock.Close())
	}
	return nil, errors.Join(fmt.Errorf("create the directory of run %s: %w", id, err), os.RemoveAll(temporary))
}

// mkdirTraversable makes a directory and those above it that are missing, whatever the
// umask, so that everybody can pass through, and only root can look around: a plain
// process and what sets a user namespace up need not be root. What engines keep others
// out of, they keep in directories of their own.
func mkdirTraversable(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := mkdirTraversable(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(dir, 0o711) // by another tare meanwhile, or what is there is no directory
	} else if err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// errLocked is the error of locking a directory that another process has locked.
var errLocked = errors.New("another process uses it")

// errForeign is the error of locking a directory that is no run's.
var errForeign = errors.New("it has no mark that tare made it")

// markOf is what the lock of a run's directory holds from its beginning to its end:
// nothing without it is ever removed, for directories called "runs" are not only tare's.
func markOf(id string) string { return markPrefix + id + "\n" }

const markPrefix = "tare run "

// newLock locks a new directory, and marks it as a run's. The kernel drops the lock
// with the process, however that ends.
func newLock(dir, id string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = f.WriteString(markOf(id))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockDir locks the directory of a run that is not under way. It makes nothing: the
// error wraps errForeign where no run has made the directory.
func lockDir(path string) (*runDir, error) {
	id := strings.TrimPrefix(filepath.Base(path), removingPrefix)
	name := filepath.Join(path, lockName)
	if mark, err := readMark(name); err != nil || mark != markOf(id) {
		return nil, cmp.Or(err, errForeign)
	}
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := lockUnshared(f); err != nil {
		return nil, errors.Join(errLocked, f.Close())
	}
	// Who had it may have deleted it while this waited to be opened.
	ours, err := f.Stat()
	now, nowErr := os.Stat(name)
	if err := errors.Join(err, nowErr); err != nil || !os.SameFile(ours, now) {
		return nil, errors.Join(errLocked, err, f.Close())
	}
	return &runDir{id, path, f}, nil
}

// lockUnshared locks a file. It waits for those that only look whether the file is locked, who
// share a lock for a moment, and for nobody else.
func lockUnshared(f *os.File) error {
	fd := int(f.Fd())
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
		if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) != nil {
			return err
		}
		if err := syscall.Flock(fd, syscall.LOCK_UN); err != nil {
			return err
		}
	}
}

// readMark returns the beginning of a lock file, empty if there is none.
func readMark(name string) (string, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	mark, err := io.ReadAll(io.LimitReader(f, 256))
	return string(mark), err
}

// remove deletes the directory. Nothing may be mounted below it any more, or
// it stays: deleting through a mount would delete what is not ours.
func (d *runDir) remove() error {
	err := checkUnmounted(d.path)
	if err == nil {
		d.unclaim()
		err = errors.Join(d.empty(), os.RemoveAll(d.path))
	}
	return errors.Join(err, d.lock.Close())
}

// unclaim takes the run's name from the directory, so that nobody takes a run that ends
// for a dead one when the lock is deleted.
func (d *runDir) unclaim() {
	unnamed := filepath.Join(filepath.Dir(d.path), removingPrefix+d.id)
	if os.Rename(d.path, unnamed) == nil {
		d.path = unnamed
	}
}

// empty deletes all but the lock, which says until the end that somebody is at it.
func (d *runDir) empty() error {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.path, e.Name())))
		}
	}
	return err
}

// close gives up the lock and leaves the directory for 'tare clean'.
func (d *runDir) close() error { return d.lock.Close() }

// checkUnmounted is an error where something is mounted below a directory.
func checkUnmounted(path string) error {
	mounts, err := mountsBelow(path)
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("%s is still mounted, so tare does not remove %s", mounts[0], path)
	}
	return err
}

// deadRuns locks and lists the directories of the runs below state that have
// no process any more. Nobody can take such a run up again until its lock is
// given back.
func deadRuns(state string) ([]*runDir, error) { return lockUnowned(state, "") }

// partiallyRemoved locks and lists the directories of runs that died while they deleted them.
// Nothing in them is of use to anybody, and their runs may have been taken up again.
func partiallyRemoved(state string) ([]*runDir, error) { return lockUnowned(state, removingPrefix) }

// lockUnowned locks and lists the directories below state that are called prefix and
// the ID of a run, have its mark, and that nobody else has.
func lockUnowned(state, prefix string) (dirs []*runDir, err error) {
	if state == "" {
		return nil, errNoState
	}
	entries, err := os.ReadDir(filepath.Join(state, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || !e.IsDir() || bench.ValidRunID(id) != nil {
			continue
		}
		dir, err := lockDir(filepath.Join(state, "runs", e.Name()))
		if errors.Is(err, errLocked) || errors.Is(err, errForeign) || errors.Is(err, fs.ErrNotExist) {
			continue // under way, not a run's, or gone meanwhile
		}
		if err != nil {
			return dirs, fmt.Errorf("run %s: %w", id, err)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// removeUnclaimed removes directories whose process died just before they became a run's,
// or just after all in them was deleted. They hold nothing but a mark, if that.
func removeUnclaimed(state string, now time.Time) {
	runs := filepath.Join(state, "runs")
	entries, _ := os.ReadDir(runs) // what cannot be listed stays
	for _, e := range entries {
		path := filepath.Join(runs, e.Name())
		info, err := e.Info()
		switch {
		case err != nil || !e.IsDir():
		case strings.HasPrefix(e.Name(), unclaimedPrefix) && now.Sub(info.ModTime()) >= unclaimedAge:
			lock := filepath.Join(path, lockName)
			if mark, err := readMark(lock); err == nil && strings.HasPrefix(mark, markPrefix) {
				_ = os.Remove(lock) // at worst the directory stays
			}
			_ = os.Remove(path) // one that holds anything stays
		case strings.HasPrefix(e.Name(), removingPrefix):
			_ = os.Remove(path) // likewise
		}
	}
}

// release gives back the locks of runs. Locks that were given back already,
// with their directory, stay so.
func release(dirs []*runDir) {
	for _, d := range dirs {
		_ = d.close() // a second close is the only error there is
	}
}

// ids lists the runs of directories.
func ids(dirs []*runDir) []string {
	var out []string
	for _, d := range dirs {
		out = append(out, d.id)
	}
	return out
}
