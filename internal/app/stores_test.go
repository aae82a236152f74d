package app_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// A store is a file, or a URL that says what keeps the runs.
func TestOpenStore(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "tare.db")
	s, err := app.OpenStore(t.Context(), "tare.db", true)
	if err == nil {
		err = errors.Join(record.Copy(t.Context(), s, storetest.Example("a", 3)), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, "./tare.db", "sqlite:tare.db", "sqlite:" + path, "sqlite://" + path} {
		s, err := app.OpenStore(t.Context(), name, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ids, err := s.Find(t.Context(), "", 0); err != nil || !slices.Equal(ids, []string{"a"}) {
			t.Errorf("%s: found %q, %v", name, ids, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]app.Kind{
		"postgres://db/tare":    app.NoScheme,
		"sqlit:tare.db":         app.NoScheme,
		"a:b":                   app.NoScheme,
		"./a:b":                 app.NoStore,
		"sqlite:a:b":            app.NoStore,
		"none.db":               app.NoStore,
		"sqlite://host/tare.db": app.NotAFile,
		"sqlite:":               app.NotAFile, // the directory
		dir:                     app.NotAFile,
	} {
		var p *app.Problem
		s, err := app.OpenStore(t.Context(), name, false)
		if !errors.As(err, &p) || p.Kind != want {
			t.Errorf("%q: %v, %v; want %s", name, s, err, want)
			continue
		}
		if want == app.NoScheme && !slices.Contains(p.Names, "sqlite") {
			t.Errorf("%q: it names the stores %q, and not sqlite", name, p.Names)
		}
		if (want == app.NoStore) != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
