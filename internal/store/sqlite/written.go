package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// written is what people wrote on a run, as the columns have it.
type written struct {
	name, notes sql.NullString
	sum         sql.NullInt64
}

// writtenColumns are those columns, which a file of format 6 lacks.
func (s *Store) writtenColumns() string {
	if s.format == formatSix {
		return "NULL, NULL, NULL"
	}
	return "name, notes, written_sum"
}

// writtenOn are the columns for what a header has.
func writtenOn(h *bench.Header) (w written, err error) {
	w.name = sql.NullString{String: h.Name, Valid: h.Name != ""}
	if len(h.Remarks) > 0 {
		text, err := json.Marshal(h.Remarks)
		if err != nil {
			return w, err
		}
		w.notes = sql.NullString{String: string(text), Valid: true}
	}
	if w.name.Valid || w.notes.Valid {
		w.sum = sql.NullInt64{Int64: sum(h.ID, w.name.String, w.notes.String), Valid: true}
	}
	return w, nil
}

// addTo adds to a header what was written. Where that is damaged, a remark says so in its
// place: what was measured can be read all the same.
func (w written) addTo(h *bench.Header) error {
	h.Name, h.Remarks = "", nil
	if !w.name.Valid && !w.notes.Valid && !w.sum.Valid {
		return nil
	}
	read := bench.Header{Name: w.name.String}
	err := checkSum(w.sum, true, h.ID, w.name.String, w.notes.String)
	if err == nil && w.notes.Valid {
		err = json.Unmarshal([]byte(w.notes.String), &read.Remarks)
	}
	if err == nil {
		err = record.ValidateWritten(&read)
	}
	if err != nil {
		h.Remarks = []bench.Remark{{Time: h.Began, Text: "the name of this run, or a note on it, is damaged: " + err.Error()}}
		return err
	}
	h.Name, h.Remarks = read.Name, read.Remarks
	return nil
}

// numberOf is the number of the run of an ID. It needs nothing else of the run.
func (s *Store) numberOf(ctx context.Context, q querier, id string) (number int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT number FROM runs NOT INDEXED WHERE id = ?", id).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, s.missing(id)
	}
	return number, s.wrap(err)
}

// missing is the error of a run that is not there.
func (s *Store) missing(id string) error {
	return fmt.Errorf("store %s: run %.80q: %w", s.path, id, fs.ErrNotExist)
}

// Named returns the ID of the run of that name.
func (s *Store) Named(ctx context.Context, name string) (id string, err error) {
	err = sql.ErrNoRows
	if s.format != formatSix {
		err = s.db.QueryRowContext(ctx, "SELECT id FROM runs WHERE name = ?", name).Scan(&id)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("store %s: run named %.80q: %w", s.path, name, fs.ErrNotExist)
	}
	return id, s.wrap(err)
}

// Rename gives a run another name, or takes it away.
func (s *Store) Rename(ctx context.Context, id, name string) error {
	if name != "" {
		if err := bench.ValidRunName(name); err != nil {
			return err
		}
	}
	return s.write(ctx, id, func(h *bench.Header) error {
		h.Name = name
		return nil
	})
}

// Annotate adds a remark to those of a run.
func (s *Store) Annotate(ctx context.Context, id string, r bench.Remark) error {
	if err := bench.ValidRemark(r); err != nil {
		return err
	}
	r.Time = r.Time.UTC()
	return s.write(ctx, id, func(h *bench.Header) error {
		if len(h.Remarks) >= bench.MaxRemarks {
			return bench.ErrManyRemarks
		}
		h.Remarks = append(h.Remarks, r)
		return nil
	})
}

// write changes what is written on a run.
func (s *Store) write(ctx context.Context, id string, change func(*bench.Header) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	var taken string // the name that another run has
	err := s.transact(ctx, nil, func(tx *sql.Tx) error {
		run, err := s.readRun(ctx, tx, id)
		if err == nil {
			err = run.written
		}
		if err != nil {
			return err
		}
		if err := change(&run.header); err != nil {
			return s.wrap(fmt.Errorf("run %s: %w", id, err))
		}
		w, err := writtenOn(&run.header)
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET name = ?, notes = ?, written_sum = ? WHERE number = ?",
			w.name, w.notes, w.sum, run.number)
		if isConstraint(err, lib.SQLITE_CONSTRAINT_UNIQUE) {
			taken = run.header.Name
		}
		return s.wrap(err)
	})
	if taken != "" {
		return s.taken(ctx, taken, err)
	}
	return err
}

// taken says which run has a name; err is why it could not be given to another.
func (s *Store) taken(ctx context.Context, name string, err error) error {
	owner, failed := s.Named(ctx, name)
	if failed != nil { // it has lost it meanwhile
		return errors.Join(err, failed)
	}
	return &bench.NameTaken{Name: name, ID: owner}
}

// isConstraint reports whether an error is that of breaking a kind of rule of the schema.
func isConstraint(err error, kind int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == kind
}

// Remove removes a run and what is stored of it alone. What was applied to samples, which
// runs share, goes with Compact.
func (s *Store) Remove(ctx context.Context, id string) error {
	if err := s.writable(); err != nil {
		return err
	}
	return s.transact(ctx, nil, func(tx *sql.Tx) error {
		number, err := s.numberOf(ctx, tx, id)
		if err != nil {
			return err
		}
		for _, statement := range []string{
			"DELETE FROM samples WHERE run = ?",
			"DELETE FROM resumptions WHERE run = ?",
			"DELETE FROM counts WHERE run = ?",
			"DELETE FROM runs WHERE number = ?",
		} {
			if _, err := tx.ExecContext(ctx, statement, number); err != nil {
				return s.wrap(err)
			}
		}
		return nil
	})
}

// Compact gives the room of what was removed back to the file system.
func (s *Store) Compact(ctx context.Context) (err error) {
	if err := s.writable(); err != nil {
		return err
	}
	conn, err := s.db.Conn(ctx) // the setting is one connection's
	if err != nil {
		return s.wrap(err)
	}
	defer func() { err = errors.Join(err, s.wrap(conn.Close())) }()
	for _, statement := range []string{
		// Each row would be looked for in all samples, which this has done already.
		"PRAGMA foreign_keys = 0",
		"DELETE FROM applied WHERE number NOT IN (SELECT applied FROM samples WHERE applied IS NOT NULL)",
		"PRAGMA foreign_keys = 1",
		"VACUUM",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA foreign_keys = 1") // err says more
			return s.wrap(err)
		}
	}
	return nil
}
