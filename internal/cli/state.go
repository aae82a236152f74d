package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

// newApp is tare with a state directory, for what measures or cleans up.
func (a *invocation) newApp() (*app.App, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	return a.tare.WithState(dir)
}

// stateDir is the directory for temporary data of runs.
func (a *invocation) stateDir() (string, error) {
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

// storeName is the file of stored runs, or the URL of another store.
func (a *invocation) storeName() (string, error) {
	if name := cmp.Or(a.global.Store, a.env("TARE_STORE")); name != "" {
		return name, nil
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
		return "", &hintError{
			fmt.Errorf("no directory for files: neither $%s nor $HOME is set", variable),
			"use --store FILE and --state DIR",
		}
	}
	return filepath.Join(home, below, "tare"), nil
}

// withStore opens the store for the duration of f, and makes one that is missing.
func (a *invocation) withStore(ctx context.Context, f func(bench.Store) error) error {
	return a.withStoreOr(ctx, true, f)
}

// withRuns opens the store for commands that need stored runs. It does not make a store
// that is missing. If that is the default store or the one of $TARE_STORE, it has no runs;
// if it is named with --store, that is a mistake.
func (a *invocation) withRuns(ctx context.Context, f func(bench.Store) error) error {
	return a.withStoreOr(ctx, false, f)
}

func (a *invocation) withStoreOr(ctx context.Context, mayMake bool, f func(bench.Store) error) error {
	name, err := a.storeName()
	if err != nil {
		return err
	}
	s, err := app.OpenStore(ctx, name, mayMake)
	var place *fs.PathError
	switch {
	case isKind(err, app.NoStore) && a.global.Store == "":
		return f(app.EmptyStore{})
	case isKind(err, app.NotAStore) && a.global.Store == "": // nobody has typed it
		return errors.Unwrap(err)
	case errors.As(err, &place) && generalHint(err) == "":
		return &hintError{err, "choose another file with --store FILE"}
	case err != nil:
		return err
	}
	return errors.Join(shortRuns(ctx, s, f(s)), s.Close())
}

// shortRuns has what an error advises name runs by the short forms of their IDs.
func shortRuns(ctx context.Context, s bench.Store, err error) error {
	for p := range app.Problems(err) {
		if p.Run != "" {
			return app.NewShortener(ctx, s).Shorten(ctx, err)
		}
	}
	return err
}
