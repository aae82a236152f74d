package cli

import (
	"cmp"
	"context"
	"crypto/rand"
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
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// stateDir is where runs keep what they need while they run: one directory for
// each, below "runs". It must be on a file system that can be an overlay's
// upper layer.
func (a *app) stateDir() (string, error) {
	switch {
	case a.global.State != "":
		return filepath.Abs(a.global.State)
	case a.env("TARE_STATE") != "":
		return filepath.Abs(a.env("TARE_STATE"))
	case os.Geteuid() == 0:
		return "/var/lib/tare", nil
	}
	return a.xdg("XDG_STATE_HOME", ".local/state")
}

// storePath is the file of stored runs.
func (a *app) storePath() (string, error) {
	for _, path := range []string{a.global.Store, a.env("TARE_STORE")} {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	dir, err := a.xdg("XDG_DATA_HOME", ".local/share")
	return filepath.Join(dir, "tare.db"), err
}

// xdg returns tare's directory below a base directory of the XDG specification.
func (a *app) xdg(variable, below string) (string, error) {
	if dir := a.env(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tare"), nil
	}
	home := a.env("HOME")
	if home == "" {
		return "", &hintError{fmt.Errorf("no place for files: neither $%s nor $HOME is set", variable), "use --store FILE and --state DIR"}
	}
	return filepath.Join(home, below, "tare"), nil
}

// withStore opens the store for the duration of f.
func (a *app) withStore(ctx context.Context, f func(bench.Store) error) error {
	path, err := a.storePath()
	if err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, path)
	var place *fs.PathError
	switch {
	case errors.As(err, &place) && generalHint(err) == "":
		return &hintError{err, "--store FILE keeps runs elsewhere"}
	case err != nil:
		return err
	}
	return errors.Join(f(s), s.Close())
}

// newRunID makes an ID that sorts by time and does not collide.
func newRunID(now time.Time) string {
	return strings.ToLower(now.UTC().Format("20060102-150405-") + rand.Text()[:4])
}

// findRun turns what a user typed into the ID of a stored run: an ID, a unique
// beginning or end of one, or "last".
func findRun(ctx context.Context, s bench.Store, text string) (string, error) {
	var found []string
	for r, err := range s.Runs(ctx) {
		if err != nil {
			return "", err
		}
		id := r.Header.ID
		if id == text || text == "last" {
			return id, nil
		}
		if text != "" && (strings.HasPrefix(id, text) || strings.HasSuffix(id, text)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &hintError{fmt.Errorf("no run %q: %w", text, fs.ErrNotExist), "'tare list' shows the stored runs; \"last\" means the newest"}
	default:
		return "", &usageError{fmt.Errorf("%q fits %d runs: %s", text, len(found), strings.Join(found, ", ")), "type more of it"}
	}
}

// openRun reads the run that a user means.
func openRun(ctx context.Context, s bench.Store, text string) (*bench.Run, error) {
	id, err := findRun(ctx, s, text)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, id)
}

// runDir is the private directory of a run under way, locked by its process:
// whoever can take the lock knows that the run is dead.
type runDir struct {
	path string
	lock *os.File
}

// makeRunDir makes and locks the directory of a run. It gets its name only
// once it is locked, so that nobody ever takes a run that begins for a dead one.
func makeRunDir(state, id string) (*runDir, error) {
	runs := filepath.Join(state, "runs")
	// The process inside need not be root: it must be able to pass through.
	if err := os.MkdirAll(runs, 0o711); err != nil {
		return nil, fmt.Errorf("make the directory of runs: %w", err)
	}
	nameless, err := os.MkdirTemp(runs, ".new-")
	if err != nil {
		return nil, fmt.Errorf("make the run's directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(nameless, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(nameless))
	}
	path := filepath.Join(runs, id)
	err = errors.Join(flock(lock), os.Chmod(nameless, 0o711))
	if err == nil {
		err = os.Rename(nameless, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the directory of run %s: %w", id, err), lock.Close(), os.RemoveAll(nameless))
	}
	return &runDir{path, lock}, nil
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

const lockName = "lock"

// flock fails if another process holds the lock. The kernel drops the lock
// with the process, however that ends.
func flock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// remove deletes the directory. Nothing may be mounted below it any more, or
// it stays: deleting through a mount would delete what is not ours.
func (d *runDir) remove() error {
	return errors.Join(removeTree(d.path), d.lock.Close())
}

// close gives up the lock and leaves the directory for 'tare clean'.
func (d *runDir) close() error { return d.lock.Close() }

// removeTree deletes a directory unless something is mounted below it.
func removeTree(path string) error {
	mounts, err := mountsBelow(path)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s is still mounted, so %s stays", mounts[0], path)
	}
	return os.RemoveAll(path)
}

// deadRuns lists the runs that have a directory below state but no process.
func deadRuns(state string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(state, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, e := range entries {
		if !e.IsDir() || bench.ValidRunID(e.Name()) != nil {
			continue
		}
		if free, err := isFree(filepath.Join(state, "runs", e.Name(), lockName)); err != nil {
			return nil, err
		} else if free {
			dead = append(dead, e.Name())
		}
	}
	slices.Sort(dead)
	return dead, nil
}

// isFree reports whether nobody holds a lock. A missing one is free: the run
// died before it took it.
func isFree(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // which drops the lock, if it was taken
	return flock(f) == nil, nil
}
