package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// Counts are what a server has counted since its cluster was made, by name.
type counts map[string]float64

// countQueries ask for them; each is one row of name and value pairs. They differ between versions.
func countQueries(version int) []string {
	all := []string{
		`SELECT 'wal', pg_current_wal_insert_lsn() - '0/0'::pg_lsn`,
		`SELECT 'hit', blks_hit, 'read', blks_read, 'deadlocks', deadlocks, 'temp', temp_bytes, 'commits', xact_commit
FROM pg_stat_database WHERE datname = current_database()`,
	}
	if version >= 170000 {
		all = append(all, `SELECT 'checkpoints', num_timed + num_requested FROM pg_stat_checkpointer`)
	} else {
		all = append(all, `SELECT 'checkpoints', checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter`)
	}
	switch {
	case version >= 180000:
		all = append(all, `SELECT 'pages', wal_fpi FROM pg_stat_wal`,
			`SELECT 'syncs', coalesce(sum(fsyncs), 0), 'sync_ms', coalesce(sum(fsync_time), 0) FROM pg_stat_io
WHERE object = 'wal'`)
	case version >= 140000:
		all = append(all, `SELECT 'pages', wal_fpi, 'syncs', wal_sync, 'sync_ms', wal_sync_time FROM pg_stat_wal`)
	}
	return all
}

// count reads what the server has counted.
func (s *server) count(ctx context.Context, version int) (counts, error) {
	// Otherwise this connection tells later what it has counted itself.
	fresh := func() error { return s.sql.Exec(ctx, "SELECT pg_stat_force_next_flush()") }
	if version < 150000 {
		fresh = func() error { return s.fresh(ctx) }
	}
	if err := fresh(); err != nil {
		return nil, err
	}
	all := counts{}
	for _, query := range countQueries(version) {
		rows, err := s.sql.Query(ctx, query)
		if err != nil {
			return nil, err
		}
		if len(rows) != 1 || len(rows[0])%2 != 0 {
			return nil, fmt.Errorf("the server has an unexpected answer to %.60q", query)
		}
		for i := 0; i < len(rows[0]); i += 2 {
			if all[rows[0][i]], err = strconv.ParseFloat(rows[0][i+1], 64); err != nil {
				return nil, fmt.Errorf("the server's count of %s: %w", rows[0][i], err)
			}
		}
	}
	return all, nil
}

// fresh waits until the server tells what it has counted until now. Before version 15 that is what another process of it
// has written into a file, up to half a second ago.
func (s *server) fresh(ctx context.Context) error {
	const within, every = 3 * time.Second, 10 * time.Millisecond
	asked, err := s.number(ctx, "SELECT extract(epoch FROM clock_timestamp())")
	if err != nil {
		return err
	}
	for end := s.clock.Now() + within; ; {
		written, err := s.number(ctx, "SELECT extract(epoch FROM pg_stat_get_snapshot_timestamp())")
		if err != nil || written >= asked {
			return err
		}
		if s.clock.Now() > end {
			return fmt.Errorf("what the server tells of its work is %.1f s old: does its statistics collector run?", asked-written)
		}
		if err := bench.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// number returns the result of a query that is one number.
func (s *server) number(ctx context.Context, query string) (float64, error) {
	rows, err := s.sql.Query(ctx, query)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, fmt.Errorf("the server has an unexpected answer to %.60q", query)
	}
	return strconv.ParseFloat(rows[0][0], 64)
}

// since returns what was counted since an earlier reading.
func (c counts) since(before counts) counts {
	d := counts{}
	for name, value := range c {
		d[name] = value - before[name]
	}
	return d
}

// alone waits until tare's own connection is the only one: processes that serve clients tell what
// they have counted at their end, and not before.
func (s *server) alone(ctx context.Context) error {
	const within, every = 10 * time.Second, 5 * time.Millisecond
	for end := s.clock.Now() + within; ; {
		rows, err := s.sql.Query(ctx, `SELECT pid FROM pg_stat_activity
WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()`)
		if err != nil || len(rows) == 0 {
			return err
		}
		if s.clock.Now() > end {
			var pids []string
			for _, row := range rows {
				pids = append(pids, row[0])
			}
			return fmt.Errorf("processes %s of the server still serve clients that have left", strings.Join(pids, ", "))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}
