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
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// stateDir is where runs keep what they need while they run: one directory for
// each, below "runs". It must be on a file system that can be an overlay's
// upper layer.
func (a *invocation) stateDir() (string, error) {
	dir, err := a.chosenStateDir()
	if err != nil {
		return "", err
	}
	return realPath(dir)
}

func (a *invocation) chosenStateDir() (string, error) {
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

// realPath resolves the links in a path that need not exist as a whole. The
// kernel names mounts by their real paths, and OCI runtimes refuse others.
func realPath(path string) (string, error) {
	base := existing(path)
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		return "", err
	}
	return filepath.Join(real, strings.TrimPrefix(path, base)), nil
}

// storePath is the file of stored runs.
func (a *invocation) storePath() (string, error) {
	for _, path := range []string{a.global.Store, a.env("TARE_STORE")} {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	dir, err := a.xdg("XDG_DATA_HOME", ".local/share")
	return filepath.Join(dir, "tare.db"), err
}

// xdg returns tare's directory below a base directory of the XDG specification.
func (a *invocation) xdg(variable, below string) (string, error) {
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
func (a *invocation) withStore(ctx context.Context, f func(bench.Store) error) error {
	path, err := a.storePath()
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		// Opened as a database, a device or a pipe would be waited for without an end.
		err := fmt.Errorf("store: %s is %s", path, kindOfFile(info.Mode()))
		return &usageError{err, "--store FILE names a file of stored runs"}
	}
	s, err := sqlite.Open(ctx, path)
	var place *fs.PathError
	switch {
	case errors.Is(err, sqlite.ErrNotStore) && a.global.Store != "":
		return &usageError{err, ""}
	case errors.As(err, &place) && generalHint(err) == "":
		return &hintError{err, "--store FILE keeps runs elsewhere"}
	case err != nil:
		return err
	}
	return errors.Join(f(s), s.Close())
}

// kindOfFile names what is not a regular file.
func kindOfFile(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	default:
		return "not a file"
	}
}

// newRunID makes an ID that sorts by time and does not collide.
func newRunID(now time.Time) string {
	return strings.ToLower(now.UTC().Format("20060102-150405-") + rand.Text()[:4])
}

// findRun turns what a user typed into the ID of a stored run: an ID, a unique
// beginning or end of one, or "last".
func findRun(ctx context.Context, s bench.Store, text string) (string, error) {
	var found []string
	var unreadable error // what hides no other run
	stored := 0
	for r, err := range s.Runs(ctx) {
		if err != nil {
			if text == "last" { // which it is, and not the one before it
				return "", &hintError{
					fmt.Errorf("which run is the last one is not known, as one cannot be read: %w", err),
					"'tare list' shows the others: name one by its ID",
				}
			}
			unreadable = errors.Join(unreadable, err)
			continue
		}
		stored++
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
		return "", cmp.Or(unreadable, noRun(text, stored))
	default:
		return "", &usageError{fmt.Errorf("%q fits %d runs: %s", text, len(found), strings.Join(found, ", ")), "type more of it"}
	}
}

// noRun is the error of looking for a run that is not among those stored.
func noRun(text string, stored int) error {
	if stored == 0 {
		return &usageError{errors.New("no runs yet"), "'tare run' makes one"}
	}
	return &usageError{fmt.Errorf("no run %q", text), "'tare list' shows the stored runs; \"last\" means the newest"}
}

// openRun reads the run that a user means.
func openRun(ctx context.Context, s bench.Store, text string) (*bench.Run, error) {
	id, err := findRun(ctx, s, text)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, id)
}
