package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

const (
	lockName = "lock"
	// nameless begins the name of a directory that is not a run's yet.
	nameless = ".new-"
	// young is how old such a directory is at most while somebody makes it.
	young = time.Minute
	// gone begins the name of a directory that is deleted; the run's ID follows.
	gone = ".gone-"
)

// runDir is the private directory of a run, locked by who has it: the run's
// own process or, once that is dead, who cleans up after it.
type runDir struct {
	id   string
	path string
	lock *os.File
}

// newRunDir makes the directory of a run, and keeps its engines there.
func newRunDir(state, id string, engines []instance) (*runDir, error) {
	dir, err := makeRunDir(state, id)
	if err != nil {
		return nil, &hintError{err, cmp.Or(generalHint(err), "--state DIR chooses another place for what runs need while they run")}
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
	if err := makePassable(runs); err != nil {
		return nil, fmt.Errorf("make the directory of runs: %w", err)
	}
	temporary, err := os.MkdirTemp(runs, nameless)
	if err != nil {
		return nil, fmt.Errorf("make the run's directory: %w", err)
	}
	dir, err := lockDir(temporary)
	if err == nil {
		path := filepath.Join(runs, id)
		if err = errors.Join(os.Chmod(temporary, 0o711), os.Rename(temporary, path)); err == nil {
			return &runDir{id, path, dir.lock}, nil
		}
		err = errors.Join(err, dir.close())
	}
	return nil, errors.Join(fmt.Errorf("make the directory of run %s: %w", id, err), os.RemoveAll(temporary))
}

// makePassable makes a directory and those above it that are missing, whatever the
// umask, so that everybody can pass through, and only root can look around: a plain
// process and what sets a user namespace up need not be root. What engines keep others
// out of, they keep in directories of their own.
func makePassable(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makePassable(parent); err != nil {
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

// errLocked is the error of locking a directory that somebody else has.
var errLocked = errors.New("another process has it")

// lockDir locks a directory. The kernel drops the lock with the process,
// however that ends.
func lockDir(path string) (*runDir, error) { return lockAs(path, os.O_CREATE|os.O_RDWR) }

// lockAs locks a directory by a file in it, opened in some way.
func lockAs(path string, flags int) (*runDir, error) {
	name := filepath.Join(path, lockName)
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errLocked, f.Close())
	}
	// Who had it may have deleted it while this waited to be opened.
	ours, err := f.Stat()
	now, nowErr := os.Stat(name)
	if err := errors.Join(err, nowErr); err != nil || !os.SameFile(ours, now) {
		return nil, errors.Join(errLocked, err, f.Close())
	}
	return &runDir{strings.TrimPrefix(filepath.Base(path), gone), path, f}, nil
}

// remove deletes the directory. Nothing may be mounted below it any more, or
// it stays: deleting through a mount would delete what is not ours.
func (d *runDir) remove() error {
	err := unmounted(d.path)
	if err == nil {
		d.unname()
		err = errors.Join(d.empty(), os.RemoveAll(d.path))
	}
	return errors.Join(err, d.lock.Close())
}

// unname takes the run's name from the directory, so that nobody takes a run that ends
// for a dead one when the lock is deleted.
func (d *runDir) unname() {
	unnamed := filepath.Join(filepath.Dir(d.path), gone+d.id)
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

// removeTree deletes a directory unless something is mounted below it.
func removeTree(path string) error {
	if err := unmounted(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// unmounted is an error where something is mounted below a directory.
func unmounted(path string) error {
	mounts, err := mountsBelow(path)
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("%s is still mounted, so %s stays", mounts[0], path)
	}
	return err
}

// deadRuns locks and lists the directories of the runs below state that have
// no process any more. Nobody can take such a run up again until its lock is
// given back.
func deadRuns(state string) ([]*runDir, error) { return unattended(state, "", lockDir) }

// halfGone locks and lists the directories of runs that died while they deleted them.
// Nothing in them is of use to anybody, and their runs may have been taken up again.
func halfGone(state string) ([]*runDir, error) {
	return unattended(state, gone, func(path string) (*runDir, error) {
		_ = os.Remove(path)            // one that is empty has no lock any more
		return lockAs(path, os.O_RDWR) // whoever deletes it would not expect another file
	})
}

// unattended locks and lists the directories below state that are called prefix and
// the ID of a run, and that nobody else has.
func unattended(state, prefix string, lock func(path string) (*runDir, error)) (dirs []*runDir, err error) {
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
		dir, err := lock(filepath.Join(state, "runs", e.Name()))
		if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // under way, or gone meanwhile
		}
		if err != nil {
			return dirs, fmt.Errorf("run %s: %w", id, err)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// unborn lists directories that were to become a run's, and whose process died
// before they did.
func unborn(state string, now time.Time) []string {
	all, err := filepath.Glob(filepath.Join(state, "runs", nameless+"*"))
	if err != nil {
		return nil // the pattern is wrong where state has odd characters: then they stay
	}
	return slices.DeleteFunc(all, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.IsDir() || now.Sub(info.ModTime()) < young
	})
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
