package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// A sampleReader reads the samples of one run in their order.
type sampleReader struct {
	store   *Store
	q       querier
	run     storedRun
	send    func(bench.Sample) error // gets every sample
	next    int                      // its Seq
	values  []float64                // space for values of later samples
	applied map[int64]applied        // by number
	row     sampleRow
	summed  []any // see columns
	// What many samples say, they share: it is in memory once.
	texts texts
	notes lists[string]
	parts lists[bench.PartOutcome]
}

// applied is a sample's Applied, with its text for the checksum.
type applied struct {
	text  string
	value *bench.Applied
}

func newSampleReader(s *Store, q querier, run storedRun, send func(bench.Sample) error) *sampleReader {
	return &sampleReader{
		store: s, q: q, run: run, send: send, applied: map[int64]applied{0: {}},
		texts: texts{}, notes: lists[string]{}, parts: lists[bench.PartOutcome]{},
	}
}

// errMissingSample means that a sample is missing.
var errMissingSample = errors.New("it is missing")

// maxMissing limits how many consecutive missing samples are replaced. If more are missing, a number
// or the run itself is damaged.
const maxMissing = 10_000

// all reads the samples. An unreadable page hides only its own samples, because all continues after
// it.
func (r *sampleReader) all(ctx context.Context) error {
	for {
		err := r.rest(ctx)
		switch {
		case err != nil && !errors.Is(errorOfCode(err), ErrDamaged), ctx.Err() != nil:
			return r.store.wrap(err)
		case r.next >= r.run.samples:
			return nil // the unreadable part belongs to another run
		case err == nil:
			err = errMissingSample
		}
		if r.run.samples-r.next > maxMissing {
			return r.store.wrap(damaged("samples of run %s from number %d on, of %d: %w", r.run.header.ID, r.next,
				r.run.samples, err))
		}
		if err := r.sendDamaged(err); err != nil {
			return err
		}
	}
}

// rest reads the samples from the next one on, until one cannot be read.
func (r *sampleReader) rest(ctx context.Context) error {
	rows, err := r.q.QueryContext(ctx, `SELECT seq, block, cell, began, elapsed, outcome, operation, reason,
		"values", applied, notes, series, distributions, counted, parts, trace, sum
		FROM samples WHERE run = ? AND seq >= ? ORDER BY seq`, r.run.number, r.next)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		s, err := r.scan(ctx, rows)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !isRowDamage(err):
			return err
		case err != nil && r.next < r.run.samples:
			return r.sendDamaged(err)
		case err != nil:
			return nil // its number was changed; it will be missing elsewhere
		case s.Trial.Seq >= r.run.samples:
			return damaged("run %s has more samples than its count, %d", r.run.header.ID, r.run.samples)
		case s.Trial.Seq < r.next:
			return nil // it was already replaced
		case s.Trial.Seq-r.next > maxMissing:
			return damaged("sample %d of run %s is followed by sample %d", r.next-1, r.run.header.ID, s.Trial.Seq)
		}
		for r.next < s.Trial.Seq {
			if err := r.sendDamaged(errMissingSample); err != nil {
				return err
			}
		}
		r.next++
		return r.send(s)
	})
}

// sendDamaged sends the replacement for the next sample, which cannot be read.
func (r *sampleReader) sendDamaged(why error) error {
	why = fmt.Errorf("its stored data is damaged (samples of run number %d, row %d): %w", r.run.number, r.next, why)
	s := record.Damaged(&r.run.header, r.next, why)
	r.next++
	return r.send(s)
}

// A sampleRow is a row of the table of samples. Its texts are those of the driver, until the next row.
type sampleRow struct {
	trial                                                                                 bench.Trial
	elapsed, counted                                                                      int64
	began, outcome, operation, reason, values, notes, series, distributions, parts, trace sql.RawBytes
	applied, sum                                                                          sql.NullInt64
}

// scan reads one row. An error means that the row is damaged.
func (r *sampleReader) scan(ctx context.Context, rows *sql.Rows) (s bench.Sample, err error) {
	row := &r.row
	err = rows.Scan(&row.trial.Seq, &row.trial.Block, &row.trial.Cell, &row.began, &row.elapsed, &row.outcome,
		&row.operation, &row.reason, &row.values, &row.applied, &row.notes, &row.series, &row.distributions, &row.counted,
		&row.parts, &row.trace, &row.sum)
	s.Trial = row.trial
	if err != nil {
		return s, err
	}
	known, err := r.appliedOf(ctx, row.applied.Int64)
	if err != nil {
		return s, err
	}
	if err := checkSum(row.sum, r.run.summed, r.columns(known.text)...); err != nil {
		return s, err
	}
	s.Elapsed, s.Counted, s.Applied = time.Duration(row.elapsed), time.Duration(row.counted), known.value
	if s.Began, err = parseTime(string(row.began)); err != nil {
		return s, err
	}
	if err := r.decode(&s); err != nil {
		return s, err
	}
	record.Upgrade(&s)
	return s, record.ValidateSample(&r.run.header, s.Trial.Seq, &s)
}

// columns are what the checksum of the row is of.
func (r *sampleReader) columns(applied string) []any {
	row := &r.row
	r.summed = append(r.summed[:0],
		r.run.header.ID, row.trial.Seq, row.trial.Block, row.trial.Cell, &row.began, row.elapsed,
		&row.outcome, &row.operation, &row.reason, &row.values, applied, &row.notes, &row.series, &row.distributions,
		row.counted)
	if row.parts != nil { // checksums of older rows do not include them
		r.summed = append(r.summed, &row.parts)
	}
	if row.trace != nil {
		r.summed = append(r.summed, &row.trace)
	}
	return r.summed
}

// decode reads the texts and values of the row.
func (r *sampleReader) decode(s *bench.Sample) (err error) {
	row := &r.row
	s.Outcome = bench.Outcome(r.texts.of(row.outcome))
	s.Operation, s.Reason = r.texts.of(row.operation), r.texts.of(row.reason)
	var wrong [4]error
	s.Notes, wrong[0] = r.notes.decoded(row.notes)
	s.Parts, wrong[1] = r.parts.decoded(row.parts)
	s.Distributions, wrong[2] = decodeJSON[[]bench.Distribution](row.distributions)
	s.Trace, wrong[3] = decodeJSON[*bench.Trace](row.trace)
	if err := errors.Join(wrong[:]...); err != nil {
		return err
	}
	if s.Series, err = decodeSeries(row.series); err != nil || s.Outcome != bench.OK {
		return err
	}
	s.Values = r.valueSlots()
	return decodeValues(s.Values, row.values)
}

// decodeJSON reads JSON; NULL is the zero value.
func decodeJSON[T any](text sql.RawBytes) (value T, err error) {
	if text != nil {
		err = json.Unmarshal(text, &value)
	}
	return value, err
}

// valueSlots returns space for the values of one sample.
func (r *sampleReader) valueSlots() []float64 {
	const batch = 1024
	n := len(r.run.header.Metrics)
	if len(r.values) < n {
		r.values = make([]float64, n*min(batch, max(1, r.run.samples-r.next)))
	}
	room := r.values[:n:n]
	r.values = r.values[n:]
	return room
}

// appliedOf reads an Applied by its number, each one once.
func (r *sampleReader) appliedOf(ctx context.Context, number int64) (a applied, err error) {
	a, ok := r.applied[number]
	if ok {
		return a, nil
	}
	a.value = new(bench.Applied)
	err = r.q.QueryRowContext(ctx, "SELECT json FROM applied WHERE number = ?", number).Scan(&a.text)
	if err == nil {
		err = json.Unmarshal([]byte(a.text), a.value)
	}
	if err != nil {
		return a, fmt.Errorf("the applied settings: %w", err)
	}
	r.applied[number] = a
	return a, nil
}
