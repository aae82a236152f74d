// Package sqlite keeps runs in one SQLite file. It implements bench.Store.
//
// The file is in write-ahead mode, and transactions are not forced to the disk. Appended samples
// survive the death of the process at any time. A power cut loses at most the samples since the log
// was last merged into the file, which happens when the store is closed, and never the file.
// Forcing each sample to the disk would put tare's own writes into its measurements.
//
// A sample is one row. Its values are one blob of little-endian float64, in the order of the
// header's metrics, so that every bit is kept and large runs can be read quickly. Its series are a
// second blob, at the row's end, so that queries that do not need them do not read them.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"modernc.org/sqlite"

	"github.com/tare-bench/tare/internal/bench"
)

var (
	_ bench.Store     = (*Store)(nil)
	_ bench.Checker   = (*Store)(nil)
	_ bench.Compacter = (*Store)(nil)
)

// busyTimeout is how long a write waits for other writing processes. Each of them holds the lock for
// about a millisecond.
const busyTimeout = 10 * time.Second

// A Store is an open file with runs.
type Store struct {
	db     *sql.DB
	path   string
	format int // of the file: see the constant
	// readOnly is why the file cannot be written; nil if it can.
	readOnly error
}

// Open opens the file at path. It makes a missing file and missing directories, readable only by
// their owner. If the file may not be written, or if the disk is full, Open opens it for reading;
// writing then fails with an error that wraps fs.ErrPermission, syscall.EROFS or syscall.ENOSPC.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := create(path); isReadOnly(err) {
		return openReadOnly(ctx, path, err)
	} else if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s, err := connect(path, url.Values{"_txlock": {"immediate"}})
	if err != nil {
		return nil, err
	}
	if err = s.prepare(ctx); err == nil {
		return s, nil
	}
	err = errors.Join(err, s.Close())
	if isReadOnly(err) { // the file is writable, but the directory is not
		return openReadOnly(ctx, path, err)
	}
	if errors.Is(err, syscall.ENOSPC) { // there is not even space for the index of the log
		if s, failed := openReadOnly(ctx, path, err); failed == nil {
			return s, nil
		}
	}
	return nil, err
}

// create makes the file, because SQLite would make it readable by everybody. Its error is the
// operating system's reason why the file cannot be written.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// openReadOnly opens a file that cannot be written, for the reason given.
func openReadOnly(ctx context.Context, path string, why error) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("store: %w", why)
	}
	modes := []url.Values{{"mode": {"ro"}}}
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() == 0 {
		// SQLite cannot make its shared-memory file. But nobody is writing, so everything is in the
		// main file.
		modes = append(modes, url.Values{"mode": {"ro"}, "immutable": {"1"}})
	} else if errors.Is(why, syscall.ENOSPC) {
		// With exclusive access SQLite keeps the index of the log in memory.
		modes = append(modes, url.Values{"_locking": {"EXCLUSIVE"}})
	}
	var failed error
	for _, mode := range modes {
		s, err := connect(path, mode)
		if err != nil {
			return nil, err
		}
		s.readOnly = why
		if err = s.check(ctx); err == nil {
			return s, nil
		}
		failed = errors.Join(err, s.Close())
	}
	return nil, failed
}

// connect returns a Store that has not touched the file yet.
func connect(path string, options url.Values) (*Store, error) {
	options["_pragma"] = []string{
		"busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")",
		"foreign_keys(1)",
		"synchronous(NORMAL)",
		// The log is merged into the file and forced to the disk when it has this many pages (64
		// MiB) or when the file is closed, so normally after a run and not during one.
		"wal_autocheckpoint(16384)",
	}
	if mode := options.Get("_locking"); mode != "" {
		options["_pragma"] = append(options["_pragma"], "locking_mode("+mode+")")
		options.Del("_locking")
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}
	connector, err := sqlite.NewConnector(name.String())
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	return &Store{db: sql.OpenDB(connector), path: path}, nil
}

// Close closes the file. Writers of this Store must be closed before that.
func (s *Store) Close() error { return s.wrap(s.db.Close()) }

// writable returns an error if the store cannot be written.
func (s *Store) writable() error {
	if s.readOnly == nil {
		return nil
	}
	return fmt.Errorf("store %s is read-only: %w", s.path, s.readOnly)
}
