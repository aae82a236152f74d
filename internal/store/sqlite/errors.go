package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// What can be wrong with a store.
var (
	// ErrFull says that the disk is full. It wraps syscall.ENOSPC. What was
	// stored before stays readable.
	ErrFull = fmt.Errorf("nothing more can be stored: %w", syscall.ENOSPC)
	// ErrNotStore says that a file is something else than a store of tare.
	ErrNotStore = errors.New("not a store of tare; choose another file with --store")
	// ErrDamaged says that a file was a store of tare once.
	ErrDamaged = errors.New("the file is damaged; move it away or choose another with --store")
	// ErrVersion says that a store was written by a newer tare.
	ErrVersion = errors.New("the store was written by a newer version of tare; use that, or another file with --store")
	// ErrOlder says that a store has a format of an older tare, from before the
	// first release. It stays as it is.
	ErrOlder = errors.New("the store was written by an older version of tare: export each run with that " +
		"version (`tare export RUN -o FILE`), and import the files into another store (`tare import FILE --store NEW`)")
	// ErrConflict says that another process wrote to the same run.
	ErrConflict = errors.New("another process wrote to this run")
	// ErrBusy says that other processes kept the file locked for too long.
	ErrBusy = errors.New("other processes keep the store locked")
)

// wrap adds the file to an error, and what it means if SQLite reports it.
func (s *Store) wrap(err error) error {
	if err == nil {
		return nil
	}
	if kind := meaning(err); kind != nil {
		return fmt.Errorf("store %s: %w (%w)", s.path, kind, err)
	}
	return fmt.Errorf("store %s: %w", s.path, err)
}

// damage reports whether an error of reading a row tells of the row, and not of a
// machine that could not read it just now.
func damage(err error) bool {
	var e *sqlite.Error
	return !errors.As(err, &e) || e.Code()&0xff == lib.SQLITE_CORRUPT
}

// meaning returns the error that a result code of SQLite stands for, or nil.
func meaning(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	if e.Code() == lib.SQLITE_IOERR_SHMSIZE {
		return ErrFull // the index of the write-ahead log could not grow
	}
	switch e.Code() & 0xff { // the rest tells variants apart
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
