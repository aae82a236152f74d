package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// Check reads the whole store. It calls each for every run, newest first, and returns a limited
// number of errors in the file itself.
func (s *Store) Check(ctx context.Context, each func(bench.CheckResult) error) (file []string, err error) {
	if file, err = s.checkFile(ctx); err != nil {
		return nil, err
	}
	numbers, err := s.numbers(ctx)
	if err != nil {
		file = append(file, err.Error())
	}
	for _, n := range numbers {
		if ctx.Err() != nil {
			return file, context.Cause(ctx)
		}
		if err := each(s.checkRun(ctx, n)); err != nil {
			return file, err
		}
	}
	return file, nil
}

// CheckRun reads one run.
func (s *Store) CheckRun(ctx context.Context, id string) bench.CheckResult {
	number, err := s.numberOf(ctx, s.db, id)
	if err != nil {
		return bench.CheckResult{ID: id, Err: err}
	}
	c := s.checkRun(ctx, number)
	c.ID = cmp.Or(c.ID, id)
	return c
}

func (s *Store) checkRun(ctx context.Context, number int64) (c bench.CheckResult) {
	run, err := s.selectRun(ctx, s.db, "WHERE number = ?", number)
	c = bench.CheckResult{ID: run.header.ID, Samples: run.samples, Summed: run.summed, Err: err, Written: run.written}
	if err != nil {
		return c
	}
	for e, err := range s.Events(ctx, c.ID) {
		if err != nil {
			c.Err = err
		} else if e.Sample != nil && slices.Contains(e.Sample.Notes, bench.NoteDamaged) {
			c.Damaged = append(c.Damaged, *e.Sample)
		}
	}
	return c
}

// checkFile asks SQLite for errors in the file and in its foreign keys.
func (s *Store) checkFile(ctx context.Context) (wrong []string, err error) {
	for _, query := range []string{
		"PRAGMA integrity_check",
		`SELECT "table" || ': ' || count(*) || ' rows refer to missing rows' FROM pragma_foreign_key_check GROUP BY "table"`,
	} {
		var text sql.NullString
		rows, err := s.db.QueryContext(ctx, query)
		if err == nil {
			err = each(rows, func() error {
				err := rows.Scan(&text)
				if text.String != "ok" {
					wrong = append(wrong, text.String)
				}
				return err
			})
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && errorOfCode(err) == ErrDamaged:
			wrong = append(wrong, fmt.Sprint(err))
		case err != nil:
			return nil, s.wrap(err)
		}
	}
	return wrong, nil
}
