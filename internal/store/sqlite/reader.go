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
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A storedRun is what the table of runs says, and how many samples there are.
type storedRun struct {
	number      int64
	header      bench.Header
	end         *bench.End
	samples     int
	resumptions int
	failed      int
	partly      int
	summed      bool // everything of it has a checksum
}

// summary selects storedRun. Samples are counted, or, in a run that is older
// than the counts, numbered without gaps, so that the last tells their number;
// those that failed, or a part of which did, have indexes of their own.
const summary = `SELECT number, id, began, header, sum, ended, ended_sum,
	(SELECT samples FROM counts WHERE run = number),
	(SELECT resumptions FROM counts WHERE run = number),
	(SELECT coalesce(max(seq) + 1, 0) FROM samples WHERE run = number),
	(SELECT count(*) FROM samples INDEXED BY failures WHERE run = number AND outcome IN ('failed', 'timed-out')),
	(SELECT count(*) FROM samples INDEXED BY failed_parts WHERE run = number AND outcome = 'ok' AND part_failed)
	FROM runs `

func (s *Store) scanRun(row interface{ Scan(dst ...any) error }) (storedRun, error) {
	var r storedRun
	var id, began, header string
	var ended sql.NullString
	var headerSum, endedSum, samples, resumptions sql.NullInt64
	if err := row.Scan(&r.number, &id, &began, &header, &headerSum, &ended, &endedSum, &samples, &resumptions, &r.samples, &r.failed, &r.partly); err != nil {
		return r, s.wrap(err)
	}
	r.summed = headerSum.Valid || samples.Valid
	if err := checkSum(headerSum, r.summed, id, began, header); err != nil || r.summed && !samples.Valid {
		return r, s.wrap(damaged("header of run number %d, which calls itself %.80q: %w", r.number, id, errSum))
	}
	if r.summed {
		r.samples, r.resumptions = int(samples.Int64), int(resumptions.Int64)
	}
	if err := json.Unmarshal([]byte(header), &r.header); err != nil {
		return r, s.wrap(damaged("header of run number %d, which calls itself %.80q: %w", r.number, id, err))
	}
	if err := record.ValidateHeader(&r.header); err != nil {
		return r, s.wrap(damaged("header of run number %d, which calls itself %.80q: %w", r.number, id, err))
	}
	if r.header.ID != id {
		return r, s.wrap(damaged("header of run number %d: it is that of run %s, and not of %.80q", r.number, r.header.ID, id))
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

// damaged is the error of finding what no store writes.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// readRun reads the run with the given ID, without its samples.
func (s *Store) readRun(ctx context.Context, q querier, id string) (storedRun, error) {
	r, err := s.scanRun(q.QueryRowContext(ctx, summary+"WHERE id = ?", id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, fmt.Errorf("store %s: run %.80q: %w", s.path, id, fs.ErrNotExist)
	case err == nil && r.header.ID != id:
		return r, s.wrap(damaged("the index of runs: it has run %s for %.80q", r.header.ID, id))
	}
	return r, err
}

// Runs yields a summary of every run, newest first. Runs that cannot be read
// yield an error each, and do not hide the others; of those that are gone the
// errors come first.
func (s *Store) Runs(ctx context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(yield func(bench.RunSummary, error) bool) {
		numbers, err := s.numbers(ctx)
		if err != nil && !yield(bench.RunSummary{}, err) {
			return
		}
		for _, n := range numbers {
			r, err := s.scanRun(s.db.QueryRowContext(ctx, summary+"WHERE number = ?", n))
			if !yield(bench.RunSummary{Header: r.header, Samples: r.samples, Failed: r.failed, Partly: r.partly, End: r.end}, err) {
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

// numbers are those of all runs, newest first. The error may come with those that
// there are.
func (s *Store) numbers(ctx context.Context) (all []int64, err error) {
	err = s.newest(ctx, func(number int64, _ string) bool { all = append(all, number); return true })
	return all, err
}

// newest calls f on every run, newest first, while that returns true. They are as their
// table has them: an index that is damaged hides some, or has them in another order. Of
// a run that is gone there is an error, after the others.
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
	err = s.db.QueryRowContext(ctx, "SELECT min(run) FROM counts WHERE NOT EXISTS (SELECT 1 FROM runs NOT INDEXED WHERE number = run) HAVING min(run) IS NOT NULL").Scan(&n)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return s.wrap(err)
	}
	return s.wrap(damaged("run number %d is gone", n))
}

// errStop says that the caller wants no more rows.
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

// Open reads one run. Samples that had the same applied to them share it: it
// must not be changed. What is damaged of the samples is read as Events says.
func (s *Store) Open(ctx context.Context, id string) (*bench.Run, error) {
	return record.Collect(s.Events(ctx, id))
}

// Events reads one run piece by piece, in the order in which it was stored, and
// holds no more than one. In the place of a sample that is damaged or gone there
// is one that failed, with bench.NoteDamaged and the reason; whatever else is
// damaged is an error that wraps ErrDamaged, and the last event.
func (s *Store) Events(ctx context.Context, id string) iter.Seq2[record.Event, error] {
	return func(yield func(record.Event, error) bool) {
		// One transaction, because the run may be written to meanwhile.
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
		_ = tx.Rollback() // err says more; what is left open ends with the connection
		return err
	}
	return s.wrap(tx.Commit())
}

func (s *Store) readResumptions(ctx context.Context, q querier, run storedRun) ([]bench.Resumption, error) {
	rows, err := q.QueryContext(ctx, "SELECT json, sum FROM resumptions NOT INDEXED WHERE run = ? ORDER BY number", run.number)
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
		err = damaged("run %s was resumed %d times, and %d are there", run.header.ID, run.resumptions, len(all))
	}
	return all, s.wrap(err)
}
