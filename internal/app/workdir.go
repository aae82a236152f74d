package app

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
)

// workPrefix begins the name of a directory in which a command makes something.
const workPrefix = ".tare-work-"

// WorkDir makes a directory for what a command makes on its way, in another one: the
// one for temporary files, or that of an output, which is on the same file system. It
// is locked like that of a run. What killed processes left of that kind goes first.
func WorkDir(parent string) (dir string, remove func() error, err error) {
	_ = removeAll(abandonedWorkDirs(parent)) // what cannot be removed does no harm, and 'tare clean' reports it
	if dir, err = os.MkdirTemp(parent, workPrefix); err != nil {
		return "", nil, err
	}
	lock, err := newLock(dir, filepath.Base(dir))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	d := &runDir{path: dir, lock: lock}
	return dir, d.removeInPlace, nil
}

// removeInPlace deletes the directory where it is, the lock last: it has no name that others ask for.
// As with a run's, nothing may be mounted below it.
func (d *runDir) removeInPlace() error {
	err := checkUnmounted(d.path)
	if err == nil {
		err = errors.Join(d.empty(), os.RemoveAll(d.path))
	}
	return errors.Join(err, d.close())
}

// abandonedWorkDirs locks and lists the directories that WorkDir made for this user and whose
// process is gone.
func abandonedWorkDirs(parent string) (all []*runDir) {
	found, _ := filepath.Glob(filepath.Join(parent, workPrefix+"*")) // below a parent like a pattern they stay
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		// Without the mark it is nobody's, or made just now.
		if d, err := lockDir(path); err == nil {
			all = append(all, d)
		}
	}
	return all
}

func removeAll(dirs []*runDir) (err error) {
	for _, d := range dirs {
		err = errors.Join(err, d.removeInPlace())
	}
	return err
}

// cleanWork removes what killed commands left among temporary files.
func cleanWork(dryRun bool) (found []Leftover, err error) {
	dirs := abandonedWorkDirs(os.TempDir())
	if dryRun {
		defer release(dirs)
	}
	for _, d := range dirs {
		l := Leftover{Leftover: bench.Leftover{Kind: "directory", ID: d.path}}
		if !dryRun {
			failed := d.removeInPlace()
			l.Removed, err = failed == nil, errors.Join(err, failed)
		}
		found = append(found, l)
	}
	return found, err
}
