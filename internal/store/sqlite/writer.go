package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// Create begins a run.
func (s *Store) Create(ctx context.Context, h bench.Header) (bench.RunWriter, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	if err := record.ValidateHeader(&h); err != nil {
		return nil, err
	}
	written, err := writtenOn(&h)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", h.ID, err)
	}
	h.Name, h.Remarks = "", nil
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", h.ID, err)
	}
	began := h.Began.UTC().Format(timeLayout)
	res, err := s.db.ExecContext(ctx, `INSERT INTO runs (id, began, header, sum, name, notes, written_sum)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		h.ID, began, string(text), sum(h.ID, began, text), written.name, written.notes, written.sum)
	if isConstraint(err, lib.SQLITE_CONSTRAINT_UNIQUE) {
		if _, missing := s.numberOf(ctx, s.db, h.ID); missing == nil {
			return nil, s.wrap(fmt.Errorf("run %s: %w", h.ID, fs.ErrExist))
		}
		return nil, s.taken(ctx, written.name.String, s.wrap(err))
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return nil, s.wrap(err)
	} else if n == 0 {
		return nil, s.wrap(fmt.Errorf("run %s: %w", h.ID, fs.ErrExist))
	}
	number, err := res.LastInsertId()
	if err != nil {
		return nil, s.wrap(err)
	}
	return s.writer(ctx, number, h, 0)
}

// Resume opens an incomplete run for appending, or one that is finished to extend it. It
// fails with ErrConflict if r.Seq is not the next trial, as when another process resumed
// the run as well.
func (s *Store) Resume(ctx context.Context, id string, r bench.Resumption) (bench.RunWriter, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	var run storedRun
	err := s.transact(ctx, nil, func(tx *sql.Tx) (err error) {
		if run, err = s.readRun(ctx, tx, id); err != nil {
			return err
		}
		if run.header, err = s.extended(ctx, tx, run); err != nil {
			return err
		}
		if err := run.resumable(r); err != nil {
			return s.wrap(fmt.Errorf("run %s: %w", id, err))
		}
		if r.Extension != nil { // how it had ended is in there from now on
			if _, err := tx.ExecContext(ctx, "UPDATE runs SET ended = NULL, ended_sum = NULL WHERE number = ?",
				run.number); err != nil {
				return s.wrap(err)
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO resumptions (run, json, sum) VALUES (?, ?, ?)", run.number,
			string(text), sum(id, text))
		return s.wrap(err)
	})
	if err != nil {
		return nil, err
	}
	return s.writer(ctx, run.number, run.header.Extended(r), run.samples)
}

// extended returns the header of a run as its resumptions have left it.
func (s *Store) extended(ctx context.Context, q querier, run storedRun) (bench.Header, error) {
	all, err := s.readResumptions(ctx, q, run)
	return run.header.Extended(all...), err
}

// Continue opens an incomplete run that came from elsewhere for appending: an imported one, or one of
// another host that was started here. The run must have next samples. It adds no resumption, because
// the missing samples were measured in the original run.
func (s *Store) Continue(ctx context.Context, id string, next int) (bench.RunWriter, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	run, err := s.readRun(ctx, s.db, id)
	switch {
	case err != nil:
		return nil, err
	case run.end != nil:
		return nil, s.wrap(fmt.Errorf("run %s: %w", id, bench.ErrFinished))
	case !run.header.Imported && run.header.Joint == nil:
		return nil, s.wrap(fmt.Errorf("run %s was measured on this machine, not imported: %w", id, fs.ErrExist))
	case run.samples != next:
		return nil, s.wrap(fmt.Errorf("run %s: continued at trial %d, but %d trials are stored: %w", id, next,
			run.samples, ErrConflict))
	}
	header, err := s.extended(ctx, s.db, run)
	if err != nil {
		return nil, err
	}
	return s.writer(ctx, run.number, header, run.samples)
}

// resumable returns an error if a run cannot be resumed.
func (r storedRun) resumable(at bench.Resumption) error {
	switch {
	case at.Extension == nil && r.end != nil:
		return bench.ErrFinished
	case at.Extension != nil && !at.Extension.Follows(r.end):
		return bench.ErrExtended
	case at.Seq != r.samples:
		return fmt.Errorf("resumed at trial %d, but %d trials are stored: %w", at.Seq, r.samples, ErrConflict)
	}
	return record.ValidateResumption(&r.header, r.samples, &at)
}

// A writer appends to one run.
type writer struct {
	store   *Store
	number  int64
	header  bench.Header
	next    int
	insert  *sql.Stmt
	applied map[string]int64 // numbers of stored Applied values, by JSON
}

// storedSamples is the number of samples of run ?1. A run that is older than the counts has samples
// numbered without gaps.
const storedSamples = `coalesce((SELECT samples FROM counts WHERE run = ?1),
	(SELECT max(seq) + 1 FROM samples WHERE run = ?1), 0)`

func (s *Store) writer(ctx context.Context, number int64, h bench.Header, next int) (bench.RunWriter, error) {
	// One statement is one transaction. It inserts nothing if the run is finished or removed, if
	// another process has appended to it, or if what was applied is gone or has another number.
	insert, err := s.db.PrepareContext(ctx, `INSERT INTO samples
		(run, seq, block, cell, began, elapsed, outcome, operation, reason, "values", applied, notes, series,
			distributions, counted, parts, trace, part_failed, sum)
		SELECT number, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19 FROM runs
		WHERE number = ?1 AND id = ?20 AND ended IS NULL AND ?2 = `+storedSamples+`
			AND (?11 IS NULL OR EXISTS (SELECT 1 FROM applied WHERE number = ?11 AND json = ?21))`)
	if err != nil {
		return nil, s.wrap(err)
	}
	return &writer{store: s, number: number, header: h, next: next, insert: insert, applied: map[string]int64{}}, nil
}

// Append stores one sample. Once it has begun, it ignores the end of ctx, so that it is never
// unknown whether a sample was stored.
func (w *writer) Append(ctx context.Context, sample bench.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := record.ValidateSample(&w.header, w.next, &sample); err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	row, err := w.row(&sample)
	if err == nil {
		err = w.add(ctx, w.store.db, w.insert, row)
	}
	switch {
	case errors.Is(err, errNoRow):
		// Another process may have compacted the store before a sample referred to what was applied.
		return w.AppendAll(ctx, []bench.Sample{sample})
	case err != nil:
		return err
	}
	w.next++
	return nil
}

// AppendAll stores samples in one transaction, all or none. It is for imports, because other
// processes must wait for the store meanwhile.
func (w *writer) AppendAll(ctx context.Context, all []bench.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	rows := make([][]any, len(all))
	for i := range all {
		err := record.ValidateSample(&w.header, w.next+i, &all[i])
		if err != nil {
			return fmt.Errorf("run %s: %w", w.header.ID, err)
		}
		if rows[i], err = w.row(&all[i]); err != nil {
			return err
		}
	}
	w.applied = map[string]int64{} // what was applied before may be gone, or have another number
	err := w.store.transact(ctx, nil, func(tx *sql.Tx) error {
		insert := tx.StmtContext(ctx, w.insert)
		for _, row := range rows {
			if err := w.add(ctx, tx, insert, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.applied = map[string]int64{} // as before the transaction
	}
	switch {
	case errors.Is(err, errNoRow):
		return w.unchangedReason(ctx) // after the transaction has released the store
	case err != nil:
		return err
	}
	w.next += len(all)
	return nil
}

// add inserts one row, and what it refers to. The error is errNoRow if the statement inserted
// nothing.
func (w *writer) add(ctx context.Context, q querier, insert *sql.Stmt, row []any) error {
	if err := w.intern(ctx, q, row); err != nil {
		return err
	}
	res, err := insert.ExecContext(ctx, row...)
	if err != nil {
		return w.store.wrap(err)
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = errNoRow
	}
	return err
}

// errNoRow means that nothing was inserted.
var errNoRow = errors.New("nothing was inserted")

// row returns the arguments of the insert for a sample, all but the number of its Applied.
func (w *writer) row(s *bench.Sample) ([]any, error) {
	var began, applied any
	var values []byte
	if !s.Began.IsZero() {
		began = s.Began.UTC().Format(timeLayout)
	}
	notes, err := encodeList(s.Notes)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	parts, err := encodeList(s.Parts)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	distributions, err := encodeList(s.Distributions)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	trace, err := encodeTrace(s.Trace)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	if s.Outcome == bench.OK {
		values = encodeValues(s.Values)
	}
	if s.Applied != nil {
		text, err := json.Marshal(s.Applied)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", w.header.ID, err)
		}
		applied = string(text)
	}
	row := []any{
		w.number, s.Trial.Seq, s.Trial.Block, s.Trial.Cell, began, int64(s.Elapsed), string(s.Outcome),
		s.Operation, s.Reason, values, applied, notes, encodeSeries(s.Series), distributions, int64(s.Counted),
	}
	checked := slices.Clone(row)
	checked[0] = w.header.ID
	for _, column := range []any{parts, trace} { // checksums cover only those that a row has
		if column != nil {
			checked = append(checked, column)
		}
	}
	return append(row, parts, trace, s.PartFailed(), sum(checked...), w.header.ID, applied), nil
}

// These arguments of the insert are the number of a sample's Applied and its JSON, which the
// checksum covers.
const (
	appliedNumber = 10
	appliedText   = 20
)

// encodeList returns a list as a JSON array; NULL if it is empty.
func encodeList[E any](list []E) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// encodeTrace returns a trace as JSON; NULL for none.
func encodeTrace(t *bench.Trace) (any, error) {
	if t == nil {
		return nil, nil
	}
	text, err := json.Marshal(t)
	return string(text), err
}

// intern puts into a row the number under which its Applied is stored. It stores that if it is new.
func (w *writer) intern(ctx context.Context, q querier, row []any) error {
	text, ok := row[appliedText].(string)
	if !ok {
		row[appliedNumber] = nil
		return nil
	}
	n, ok := w.applied[text]
	if !ok {
		if _, err := q.ExecContext(ctx, "INSERT INTO applied (json) VALUES (?) ON CONFLICT DO NOTHING", text); err != nil {
			return w.store.wrap(err)
		}
		if err := q.QueryRowContext(ctx, "SELECT number FROM applied WHERE json = ?", text).Scan(&n); err != nil {
			return w.store.wrap(err)
		}
		w.applied[text] = n
	}
	row[appliedNumber] = n
	return nil
}

// Finish marks the run finished.
func (w *writer) Finish(ctx context.Context, e bench.End) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := record.ValidateEnd(&e); err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("run %s: %w", w.header.ID, err)
	}
	res, err := w.store.db.ExecContext(ctx, `UPDATE runs SET ended = ?3, ended_sum = ?4
		WHERE number = ?1 AND id = ?5 AND ended IS NULL AND ?2 = `+storedSamples,
		w.number, w.next, string(text), sum(w.header.ID, text, w.next), w.header.ID)
	return w.requireChanged(ctx, res, err)
}

// requireChanged returns an error if a statement changed no row.
func (w *writer) requireChanged(ctx context.Context, res sql.Result, err error) error {
	if err != nil {
		return w.store.wrap(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return w.store.wrap(err)
	}
	return w.unchangedReason(ctx)
}

// unchangedReason returns why a statement changed nothing.
func (w *writer) unchangedReason(ctx context.Context) error {
	run, err := w.store.readRun(ctx, w.store.db, w.header.ID)
	switch {
	case err != nil:
		return err
	case run.end != nil:
		err = bench.ErrFinished
	default:
		err = fmt.Errorf("this process expects trial %d next, but %d trials are stored: %w", w.next, run.samples,
			ErrConflict)
	}
	return w.store.wrap(fmt.Errorf("run %s: %w", w.header.ID, err))
}

// Close releases the writer. It may be called twice.
func (w *writer) Close() error { return w.store.wrap(w.insert.Close()) }

// parseTime reads a time as it is stored.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(timeLayout, text)
}
