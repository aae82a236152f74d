package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
)

var _ bench.Holder = (*Store)(nil)

// heldSuffix ends the name of the file whose bytes are locked, one for each run. It is always empty,
// and a file of its own: closing the database's file would end SQLite's locks on that.
const heldSuffix = "-held"

// setLock is F_OFD_SETLK: the lock belongs to the open file, and ends with it or with the process.
const setLock = 37

// Hold implements bench.Holder, for the processes of this machine.
func (s *Store) Hold(ctx context.Context, id string) (io.Closer, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	number, err := s.numberOf(ctx, s.db, id)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path+heldSuffix, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, s.wrap(err)
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: number, Len: 1}
	err = syscall.FcntlFlock(f.Fd(), setLock, &lock)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		err = bench.ErrHeld
	}
	if err != nil {
		return nil, errors.Join(s.wrap(fmt.Errorf("run %s: %w", id, err)), f.Close())
	}
	return f, nil
}
