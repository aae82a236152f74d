package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Errors of a store.
var (
	// ErrFull means that the disk is full. It wraps syscall.ENOSPC. Everything that was stored
	// before stays readable.
	ErrFull = fmt.Errorf("the disk is full, so nothing more can be stored: %w", syscall.ENOSPC)
	// ErrNotStore means that a file is not a store of tare.
	ErrNotStore = errors.New("not a store of tare; choose another file with --store")
	// ErrDamaged means that a file is a damaged store of tare.
	ErrDamaged = errors.New("the file is damaged; move it away or choose another with --store")
	// ErrVersion means that a newer tare wrote the store.
	ErrVersion = errors.New("the store was written by a newer version of tare; use that, or another file with --store")
	// ErrOlder means that a store has a format of an older tare, from before the first release. The
	// file stays unchanged.
	ErrOlder = errors.New("the store was written by an older version of tare: export each run with that " +
		"version (`tare export RUN -o FILE`), and import the files into another store (`tare import FILE --store NEW`)")
	// ErrConflict means that another process wrote to the same run.
	ErrConflict = errors.New("another process wrote to this run")
	// ErrBusy means that other processes kept the file locked for too long.
	ErrBusy = errors.New("other processes keep the store locked: wait until they end, or choose another file with " +
		"--store")
)

// wrap adds to an error the file's path and, for an error of SQLite, its meaning.
func (s *Store) wrap(err error) error {
	if err == nil {
		return nil
	}
	if kind := errorOfCode(err); kind != nil {
		return fmt.Errorf("store %s: %w (%w)", s.path, kind, err)
	}
	return fmt.Errorf("store %s: %w", s.path, err)
}

// isRowDamage reports whether an error of reading a row is about the row itself, and not about a machine
// that could not read it at this moment.
func isRowDamage(err error) bool {
	var e *sqlite.Error
	return !errors.As(err, &e) || e.Code()&0xff == lib.SQLITE_CORRUPT
}

// errorOfCode returns the error for a result code of SQLite, or nil.
func errorOfCode(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	if e.Code() == lib.SQLITE_IOERR_SHMSIZE {
		return ErrFull // the index of the write-ahead log could not grow
	}
	switch e.Code() & 0xff { // the higher bits distinguish variants
	case lib.SQLITE_FULL:
		return ErrFull
	case lib.SQLITE_NOTADB:
		return ErrNotStore
	case lib.SQLITE_CORRUPT:
		return ErrDamaged
	case lib.SQLITE_BUSY:
		return ErrBusy
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM:
		return fs.ErrPermission
	}
	return nil
}
