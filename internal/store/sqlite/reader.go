package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// A querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A storedRun is a row of the table of runs, with the number of samples.
type storedRun struct {
	number      int64
	header      bench.Header
	end         *bench.End
	samples     int
	resumptions int
	failed      int
	partly      int
	summed      bool  // all its parts have checksums
	written     error // what is wrong with its name and notes
}

// summary selects storedRun. The number of samples comes from the table of counts. A run that is
// older than that table has samples numbered without gaps, so the last one tells the number.
// Samples that failed, in whole or in part, have indexes of their own.
const summary = `SELECT number, id, began, header, sum, ended, ended_sum, %s,
	(SELECT samples FROM counts WHERE run = number),
	(SELECT resumptions FROM counts WHERE run = number),
	(SELECT coalesce(max(seq) + 1, 0) FROM samples WHERE run = number),
	(SELECT count(*) FROM samples INDEXED BY failures WHERE run = number AND outcome IN ('failed', 'timed-out')),
	(SELECT count(*) FROM samples INDEXED BY failed_parts WHERE run = number AND outcome = 'ok' AND part_failed)
	FROM runs `

// selectRun selects the storedRun of a condition.
func (s *Store) selectRun(ctx context.Context, q querier, where string, arg any) (storedRun, error) {
	return s.scanRun(q.QueryRowContext(ctx, fmt.Sprintf(summary, s.writtenColumns())+where, arg))
}

func (s *Store) scanRun(row interface{ Scan(dst ...any) error }) (storedRun, error) {
	var r storedRun
	var w written
	var id, began, header string
	var ended sql.NullString
	var headerSum, endedSum, samples, resumptions sql.NullInt64
	if err := row.Scan(&r.number, &id, &began, &header, &headerSum, &ended, &endedSum, &w.name, &w.notes, &w.sum, &samples,
		&resumptions, &r.samples, &r.failed, &r.partly); err != nil {
		return r, s.wrap(err)
	}
	r.summed = headerSum.Valid || samples.Valid
	if err := checkSum(headerSum, r.summed, id, began, header); err != nil || r.summed && !samples.Valid {
		return r, s.wrap(damaged("header of run number %d, with the ID %.80q: %w", r.number, id, errSum))
	}
	if r.summed {
		r.samples, r.resumptions = int(samples.Int64), int(resumptions.Int64)
	}
	if err := json.Unmarshal([]byte(header), &r.header); err != nil {
		return r, s.wrap(damaged("header of run number %d, with the ID %.80q: %w", r.number, id, err))
	}
	if err := record.ValidateHeader(&r.header); err != nil {
		return r, s.wrap(damaged("header of run number %d, with the ID %.80q: %w", r.number, id, err))
	}
	if r.header.ID != id {
		return r, s.wrap(damaged("header of run number %d: it belongs to run %s, not to %.80q", r.number, r.header.ID,
			id))
	}
	if r.written = w.addTo(&r.header); r.written != nil {
		r.written = s.wrap(damaged("what is written on run %s: %w", id, r.written))
	}
	if !ended.Valid && !endedSum.Valid {
		return r, nil
	}
	if err := checkSum(endedSum, r.summed, id, ended.String, r.samples); err != nil {
		return r, s.wrap(damaged("end of run %s: %w", id, err))
	}
	r.end = new(bench.End)
	if err := json.Unmarshal([]byte(ended.String), r.end); err != nil {
		return r, s.wrap(damaged("end of run %s: %w", r.header.ID, err))
	}
	return r, nil
}

// damaged is the error for content that no store writes.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// readRun reads the run with the given ID, without its samples.
func (s *Store) readRun(ctx context.Context, q querier, id string) (storedRun, error) {
	r, err := s.selectRun(ctx, q, "WHERE id = ?", id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, fmt.Errorf("store %s: run %.80q: %w", s.path, id, fs.ErrNotExist)
	case err == nil && r.header.ID != id:
		return r, s.wrap(damaged("the index of runs: it has run %s for %.80q", r.header.ID, id))
	}
	return r, err
}

// Runs yields a summary of every run, newest first. Each run that cannot be read yields an error
// and does not hide the others. The errors for missing runs come first.
func (s *Store) Runs(ctx context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(yield func(bench.RunSummary, error) bool) {
		numbers, err := s.numbers(ctx)
		if err != nil && !yield(bench.RunSummary{}, err) {
			return
		}
		for _, n := range numbers {
			r, err := s.selectRun(ctx, s.db, "WHERE number = ?", n)
			if errors.Is(err, sql.ErrNoRows) { // somebody has removed it meanwhile
				continue
			}
			if !yield(bench.RunSummary{
				Header: r.header, Samples: r.samples, Failed: r.failed, PartFailed: r.partly, End: r.end,
			}, err) {
				return
			}
		}
	}
}

// Find returns the IDs that begin or end with part, newest first.
func (s *Store) Find(ctx context.Context, part string, limit int) (ids []string, err error) {
	err = s.newest(ctx, func(_ int64, id string) bool {
		if strings.HasPrefix(id, part) || strings.HasSuffix(id, part) {
			ids = append(ids, id)
		}
		return limit == 0 || len(ids) < limit
	})
	return ids, err
}

// numbers are the numbers of all runs, newest first. Even with an error it returns those that it
// could read.
func (s *Store) numbers(ctx context.Context) (all []int64, err error) {
	err = s.newest(ctx, func(number int64, _ string) bool { all = append(all, number); return true })
	return all, err
}

// newest calls f for every run, newest first, while f returns true. It reads the table without an
// index, because a damaged index would hide runs or change their order. If a run is missing, it
// returns an error after the others.
func (s *Store) newest(ctx context.Context, f func(number int64, id string) bool) error {
	rows, err := s.db.QueryContext(ctx, "SELECT number, id FROM runs NOT INDEXED ORDER BY began DESC, id DESC")
	if err != nil {
		return s.wrap(err)
	}
	var n int64
	var id string
	err = each(rows, func() error {
		if err := rows.Scan(&n, &id); err != nil {
			return err
		}
		if !f(n, id) {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return s.wrap(err)
	}
	err = s.db.QueryRowContext(ctx,
		"SELECT min(run) FROM counts WHERE NOT EXISTS (SELECT 1 FROM runs NOT INDEXED WHERE number = run) HAVING "+
			"min(run) IS NOT NULL").Scan(&n)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return s.wrap(err)
	}
	return s.wrap(damaged("run number %d is missing", n))
}

// errStop means that the caller wants no more rows.
var errStop = errors.New("stop")

// each calls f on every row, until it fails, and closes rows.
func each(rows *sql.Rows, f func() error) error {
	for rows.Next() {
		if err := f(); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// Open reads one run. Samples with the same Applied, Notes or Parts share them, so these must not be
// changed. See Events for damaged samples.
func (s *Store) Open(ctx context.Context, id string) (*bench.Run, error) {
	return record.Collect(s.Events(ctx, id))
}

// Events reads one run piece by piece, in the order in which it was stored, and holds no more than
// one piece. A failed sample with bench.NoteDamaged and the reason replaces each sample that is
// damaged or missing. Any other damage ends the events with an error that wraps ErrDamaged.
func (s *Store) Events(ctx context.Context, id string) iter.Seq2[record.Event, error] {
	return func(yield func(record.Event, error) bool) {
		// One transaction, because another process may write to the run meanwhile.
		err := s.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
			run, err := s.readRun(ctx, tx, id)
			if err != nil {
				return err
			}
			resumptions, err := s.readResumptions(ctx, tx, run)
			if err != nil {
				return err
			}
			send := func(e record.Event) error {
				if !yield(e, nil) {
					return errStop
				}
				return nil
			}
			if err := send(record.Event{Header: &run.header}); err != nil {
				return err
			}
			resumed := func(seq int) error {
				for len(resumptions) > 0 && resumptions[0].Seq <= seq {
					if err := send(record.Event{Resumption: &resumptions[0]}); err != nil {
						return err
					}
					resumptions = resumptions[1:]
				}
				return nil
			}
			extended := run
			extended.header = run.header.Extended(resumptions...)
			r := newSampleReader(s, tx, extended, func(sample bench.Sample) error {
				if err := resumed(sample.Trial.Seq); err != nil {
					return err
				}
				return send(record.Event{Sample: &sample})
			})
			if err := r.all(ctx); err != nil {
				return err
			}
			if err := resumed(run.samples); err != nil || run.end == nil {
				return err
			}
			return send(record.Event{End: run.end})
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(record.Event{}, err)
		}
	}
}

// transact calls f in a transaction, and commits it if f succeeds.
func (s *Store) transact(ctx context.Context, o *sql.TxOptions, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, o)
	if err != nil {
		return s.wrap(err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // err says more; the connection's end ends the transaction too
		return err
	}
	return s.wrap(tx.Commit())
}

func (s *Store) readResumptions(ctx context.Context, q querier, run storedRun) ([]bench.Resumption, error) {
	rows, err := q.QueryContext(ctx, "SELECT json, sum FROM resumptions NOT INDEXED WHERE run = ? ORDER BY number",
		run.number)
	if err != nil {
		return nil, s.wrap(err)
	}
	var all []bench.Resumption
	err = each(rows, func() error {
		var text sql.RawBytes
		var stored sql.NullInt64
		var r bench.Resumption
		if err := rows.Scan(&text, &stored); err != nil {
			return err
		}
		if err := checkSum(stored, run.summed, run.header.ID, text); err != nil {
			return damaged("resumption of run %s: %w", run.header.ID, err)
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return damaged("resumption of run %s: %w", run.header.ID, err)
		}
		all = append(all, r)
		return nil
	})
	if err == nil && run.summed && len(all) != run.resumptions {
		err = damaged("run %s was resumed %d times, but %d resumptions are stored", run.header.ID, run.resumptions,
			len(all))
	}
	return all, s.wrap(err)
}
