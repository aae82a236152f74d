package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// storeKind is a kind of store, and how one of it is opened.
type storeKind struct {
	scheme string // of its URLs
	// open opens the store at the rest of the URL. One that does not exist it makes
	// if it may, or else the error wraps fs.ErrNotExist.
	open func(ctx context.Context, at string, mayMake bool) (bench.Store, error)
}

// stores lists every kind of store in the program. The first is that of plain files.
func stores() []storeKind {
	return []storeKind{
		{"sqlite", openSQLite},
	}
}

// StoreSchemes lists the schemes of URLs that OpenStore knows.
func StoreSchemes() (all []string) {
	for _, k := range stores() {
		all = append(all, k.scheme)
	}
	return all
}

// schemePattern is how a URL begins. A file that is called so is written with its
// directory: ./a:b.
var schemePattern = regexp.MustCompile(`^([a-z][a-z0-9+.-]*):`)

// OpenStore opens the store of a name: a file, or a URL whose scheme says what keeps the
// runs, such as sqlite:FILE. One that does not exist it makes if it may. A name that
// cannot be a store's is a Problem, NoStore if there is none.
func OpenStore(ctx context.Context, name string, mayMake bool) (bench.Store, error) {
	kinds := stores()
	scheme, at := kinds[0].scheme, name
	if m := schemePattern.FindStringSubmatch(name); m != nil {
		scheme, at = m[1], strings.TrimPrefix(name, m[0])
	}
	for _, k := range kinds {
		if k.scheme == scheme {
			return k.open(ctx, at, mayMake)
		}
	}
	return nil, &Problem{
		Kind: NoScheme, Names: StoreSchemes(),
		Err: fmt.Errorf("store: %q: unknown kind of store %q", name, scheme),
	}
}

// openSQLite opens a file of runs: a path, or what follows "sqlite:" in a URL, which
// may begin with "//" and an absolute path then.
func openSQLite(ctx context.Context, at string, mayMake bool) (bench.Store, error) {
	if rest, ok := strings.CutPrefix(at, "//"); ok && !filepath.IsAbs(rest) {
		return nil, &Problem{Kind: NotAFile, Err: fmt.Errorf("store: sqlite:%s is not a file on this machine", at)}
	}
	path, err := filepath.Abs(at)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		// Opening a device or a pipe as a database would never end.
		return nil, &Problem{Kind: NotAFile, Err: fmt.Errorf("store: %s is %s", path, kindOfFile(info.Mode()))}
	case errors.Is(err, fs.ErrNotExist) && !mayMake:
		return nil, &Problem{Kind: NoStore, Err: &storeNotFound{path}}
	}
	s, err := sqlite.Open(ctx, path)
	switch {
	case errors.Is(err, sqlite.ErrNotStore):
		return nil, &Problem{Kind: NotAStore, Err: err}
	case err != nil:
		return nil, err
	}
	return s, nil
}

// storeNotFound is the error of a store that does not exist, and is not to be made.
type storeNotFound struct{ path string }

func (e *storeNotFound) Error() string { return "store: no such file: " + e.path }
func (*storeNotFound) Unwrap() error   { return fs.ErrNotExist }

// kindOfFile names a kind of file that is not regular.
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

// EmptyStore is the store before the first run: it has none, and takes none.
type EmptyStore struct{}

var _ bench.Store = EmptyStore{}

// Create refuses: commands that write do not get this store.
func (EmptyStore) Create(context.Context, bench.Header) (bench.RunWriter, error) {
	return nil, errors.ErrUnsupported
}

// Resume finds no run.
func (EmptyStore) Resume(context.Context, string, bench.Resumption) (bench.RunWriter, error) {
	return nil, fs.ErrNotExist
}

// Open finds no run.
func (EmptyStore) Open(context.Context, string) (*bench.Run, error) { return nil, fs.ErrNotExist }

// Runs yields nothing.
func (EmptyStore) Runs(context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(func(bench.RunSummary, error) bool) {}
}

// Find finds nothing.
func (EmptyStore) Find(context.Context, string, int) ([]string, error) { return nil, nil }

// Named finds no run.
func (EmptyStore) Named(context.Context, string) (string, error) { return "", fs.ErrNotExist }

// Rename finds no run.
func (EmptyStore) Rename(context.Context, string, string) error { return fs.ErrNotExist }

// Annotate finds no run.
func (EmptyStore) Annotate(context.Context, string, bench.Remark) error { return fs.ErrNotExist }

// Remove finds no run.
func (EmptyStore) Remove(context.Context, string) error { return fs.ErrNotExist }

// Close does nothing.
func (EmptyStore) Close() error { return nil }
