package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-bench/tare/internal/bench"
)

var _ bench.FleetKeeper = (*Store)(nil)

// fleets is a table that a file gets with its first fleet. So files without fleets, and files of older formats, stay
// as they are, and older versions of tare go on with a file that has some.
const fleets = `CREATE TABLE IF NOT EXISTS fleets (
	id   TEXT NOT NULL PRIMARY KEY,
	json BLOB NOT NULL,
	sum  INTEGER NOT NULL -- of both
) STRICT`

// PutFleet stores a fleet, or what is known of it now.
func (s *Store) PutFleet(ctx context.Context, id string, data []byte) error {
	if err := s.writable(); err != nil {
		return err
	}
	if err := bench.ValidRunID(id); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fleets); err != nil {
			return s.wrap(err)
		}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO fleets (id, json, sum) VALUES (?, ?, ?)", id, data,
			sum(id, data))
		return s.wrap(err)
	})
}

// Fleet returns a stored fleet.
func (s *Store) Fleet(ctx context.Context, id string) (data []byte, err error) {
	var stored sql.NullInt64
	err = sql.ErrNoRows
	if has, hasErr := s.hasFleets(ctx); hasErr != nil {
		return nil, hasErr
	} else if has {
		err = s.db.QueryRowContext(ctx, "SELECT json, sum FROM fleets WHERE id = ?", id).Scan(&data, &stored)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, s.noFleet(id)
	case err != nil:
		return nil, s.wrap(err)
	}
	if err := checkSum(stored, true, id, data); err != nil {
		return nil, s.wrap(damaged("fleet %s: %w", id, err))
	}
	return data, nil
}

// Fleets returns the IDs of all fleets.
func (s *Store) Fleets(ctx context.Context) (ids []string, err error) {
	if has, err := s.hasFleets(ctx); err != nil || !has {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM fleets ORDER BY id DESC")
	if err != nil {
		return nil, s.wrap(err)
	}
	err = each(rows, func() error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, s.wrap(err)
}

// RemoveFleet removes a fleet.
func (s *Store) RemoveFleet(ctx context.Context, id string) error {
	if err := s.writable(); err != nil {
		return err
	}
	if has, err := s.hasFleets(ctx); err != nil {
		return err
	} else if !has {
		return s.noFleet(id)
	}
	res, err := s.db.ExecContext(ctx, "DELETE FROM fleets WHERE id = ?", id)
	if err != nil {
		return s.wrap(err)
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return s.wrap(err)
	}
	return s.noFleet(id)
}

// noFleet is the error of a fleet that is not there.
func (s *Store) noFleet(id string) error {
	return fmt.Errorf("store %s: fleet %.80q: %w", s.path, id, fs.ErrNotExist)
}

// hasFleets reports whether the file has had a fleet.
func (s *Store) hasFleets(ctx context.Context) (has bool, err error) {
	const query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'fleets'"
	err = s.db.QueryRowContext(ctx, query).Scan(&has)
	return has, s.wrap(err)
}
