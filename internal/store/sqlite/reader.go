package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/record"
)

// A querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A storedRun is what the table of runs says, and how many samples there are.
type storedRun struct {
	number  int64
	header  bench.Header
	end     *bench.End
	samples int
	failed  int
	partly  int
}

// summary selects storedRun. Samples are numbered without gaps, so that the
// last tells their number; those that failed, or a part of which did, have indexes
// of their own.
const summary = `SELECT number, header, ended,
	(SELECT coalesce(max(seq) + 1, 0) FROM samples WHERE run = number),
	(SELECT count(*) FROM samples INDEXED BY failures WHERE run = number AND outcome IN ('failed', 'timed-out')),
	(SELECT count(*) FROM samples INDEXED BY partial_failures
		WHERE run = number AND outcome = 'ok' AND instr(replace(notes, '\"', ''), '"part-failed: ') > 0)
	FROM runs `

func (s *Store) scanRun(row interface{ Scan(dst ...any) error }) (storedRun, error) {
	var r storedRun
	var header string
	var ended sql.NullString
	if err := row.Scan(&r.number, &header, &ended, &r.samples, &r.failed, &r.partly); err != nil {
		return r, s.wrap(err)
	}
	if err := json.Unmarshal([]byte(header), &r.header); err != nil {
		return r, s.wrap(damaged("header of run number %d: %w", r.number, err))
	}
	if err := record.ValidateHeader(&r.header); err != nil {
		return r, s.wrap(damaged("header of run number %d: %w", r.number, err))
	}
	if !ended.Valid {
		return r, nil
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
	if errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("store %s: run %.80q: %w", s.path, id, fs.ErrNotExist)
	}
	return r, err
}

// Runs yields a summary of every run, newest first. Runs that cannot be read
// yield an error each, and do not hide the others.
func (s *Store) Runs(ctx context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(yield func(bench.RunSummary, error) bool) {
		rows, err := s.db.QueryContext(ctx, summary+"ORDER BY began DESC, id DESC")
		if err != nil {
			yield(bench.RunSummary{}, s.wrap(err))
			return
		}
		err = each(rows, func() error {
			r, err := s.scanRun(rows)
			if !yield(bench.RunSummary{Header: r.header, Samples: r.samples, Failed: r.failed, Partly: r.partly, End: r.end}, err) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(bench.RunSummary{}, s.wrap(err))
		}
	}
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
// must not be changed.
func (s *Store) Open(ctx context.Context, id string) (run *bench.Run, err error) {
	// One transaction, because the run may be written to meanwhile.
	err = s.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		stored, err := s.readRun(ctx, tx, id)
		if err != nil {
			return err
		}
		run = &bench.Run{Header: stored.header, End: stored.end}
		if run.Samples, err = s.readSamples(ctx, tx, stored); err != nil {
			return err
		}
		run.Resumptions, err = s.readResumptions(ctx, tx, stored)
		return err
	})
	if err != nil {
		return nil, err
	}
	return run, nil
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
	rows, err := q.QueryContext(ctx, "SELECT json FROM resumptions WHERE run = ? ORDER BY number", run.number)
	if err != nil {
		return nil, s.wrap(err)
	}
	var all []bench.Resumption
	err = each(rows, func() error {
		var text sql.RawBytes
		var r bench.Resumption
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return damaged("resumption of run %s: %w", run.header.ID, err)
		}
		all = append(all, r)
		return nil
	})
	return all, s.wrap(err)
}

func (s *Store) readSamples(ctx context.Context, q querier, run storedRun) ([]bench.Sample, error) {
	if run.samples == 0 {
		return nil, nil
	}
	rows, err := q.QueryContext(ctx, `SELECT seq, block, cell, began, elapsed, outcome, operation, reason, "values", applied, notes, series, distributions, counted
		FROM samples WHERE run = ? ORDER BY seq`, run.number)
	if err != nil {
		return nil, s.wrap(err)
	}
	r := newSampleReader(run)
	err = each(rows, func() error {
		if err := r.scan(rows); err != nil && meaning(err) == nil && ctx.Err() == nil {
			return damaged("sample %d of run %s: %w", len(r.samples), run.header.ID, err)
		} else if err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	return r.samples, s.readApplied(ctx, q, r)
}

// A sampleReader collects the samples of one run.
type sampleReader struct {
	header  *bench.Header
	samples []bench.Sample
	values  []float64 // room for the values of samples to come, made at once
	applied []int64   // by sample, the number of what was applied; 0 for nothing
}

func newSampleReader(run storedRun) *sampleReader {
	room := min(max(0, run.samples), 1<<20) // the number is the file's word, and a damaged file says anything
	return &sampleReader{
		header:  &run.header,
		samples: make([]bench.Sample, 0, room),
		applied: make([]int64, 0, room),
	}
}

// scan reads one row.
func (r *sampleReader) scan(rows *sql.Rows) error {
	var s bench.Sample
	var began, outcome, operation, reason, values, notes, series, distributions sql.RawBytes
	var applied sql.NullInt64
	err := rows.Scan(&s.Trial.Seq, &s.Trial.Block, &s.Trial.Cell, &began, (*int64)(&s.Elapsed), &outcome, &operation, &reason, &values, &applied, &notes, &series, &distributions, (*int64)(&s.Counted))
	if err != nil {
		return err
	}
	s.Outcome, s.Operation, s.Reason = bench.Outcome(outcome), string(operation), string(reason)
	if s.Began, err = parseTime(string(began)); err != nil {
		return err
	}
	if err := errors.Join(decodeList(notes, &s.Notes), decodeList(distributions, &s.Distributions)); err != nil {
		return err
	}
	if s.Series, err = decodeSeries(series); err != nil {
		return err
	}
	if s.Outcome == bench.OK {
		s.Values = r.room()
		if err := decodeValues(s.Values, values); err != nil {
			return err
		}
	}
	if err := record.ValidateSample(r.header, len(r.samples), &s); err != nil {
		return err
	}
	r.samples = append(r.samples, s)
	r.applied = append(r.applied, applied.Int64)
	return nil
}

// decodeList reads a JSON array; NULL is none.
func decodeList(text sql.RawBytes, to any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, to)
}

// room returns place for the values of one sample.
func (r *sampleReader) room() []float64 {
	const batch = 1024
	n := len(r.header.Metrics)
	if len(r.values) < n {
		left := max(1, cap(r.samples)-len(r.samples))
		r.values = make([]float64, n*min(batch, left))
	}
	room := r.values[:n:n]
	r.values = r.values[n:]
	return room
}

// readApplied reads what was applied to the samples, each once.
func (s *Store) readApplied(ctx context.Context, q querier, r *sampleReader) error {
	known := map[int64]*bench.Applied{0: nil}
	for i, number := range r.applied {
		a, ok := known[number]
		if !ok {
			var text string
			if err := q.QueryRowContext(ctx, "SELECT json FROM applied WHERE number = ?", number).Scan(&text); err != nil {
				return s.wrap(err)
			}
			a = new(bench.Applied)
			if err := json.Unmarshal([]byte(text), a); err != nil {
				return s.wrap(damaged("what was applied to sample %d of run %s: %w", i, r.header.ID, err))
			}
			known[number] = a
		}
		r.samples[i].Applied = a
	}
	return nil
}
