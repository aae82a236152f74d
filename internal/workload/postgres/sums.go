package postgres

import (
	"context"
	"fmt"
	"strconv"

	load "github.com/tare-bench/tare/internal/load/postgres"
)

// Sums are what the tables hold. All are 0 in the template.
type sums struct {
	history  int64 // rows
	deltas   int64 // sum of the amounts in these rows
	accounts int64 // sum of the balances
	tellers  int64
	branches int64
}

const sumsQuery = `SELECT (SELECT count(*) FROM pgbench_history), (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
(SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts), (SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers),
(SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches)`

// sums reads them.
func (s *server) sums(ctx context.Context) (got sums, err error) {
	rows, err := s.sql.Query(ctx, sumsQuery)
	if err != nil {
		return sums{}, err
	}
	fields := []*int64{&got.history, &got.deltas, &got.accounts, &got.tellers, &got.branches}
	if len(rows) != 1 || len(rows[0]) != len(fields) {
		return sums{}, fmt.Errorf("the server has an unexpected answer to the question for the tables' sums")
	}
	for i, field := range fields {
		if *field, err = strconv.ParseInt(rows[0][i], 10, 64); err != nil {
			return sums{}, err
		}
	}
	return got, nil
}

// add adds what a number of transactions of a script wrote; delta is the sum of their amounts.
func (s *sums) add(script string, transactions, delta int64) {
	history, account, tellerAndBranch := load.Writes(script)
	if history {
		s.history += transactions
		s.deltas += delta
	}
	if account {
		s.accounts += delta
	}
	if tellerAndBranch {
		s.tellers += delta
		s.branches += delta
	}
}

// setAmounts takes amounts that nobody has told from what the tables hold. What was written into one table
// must be in the others, too.
func (s *sums) setAmounts(got sums) {
	s.deltas, s.accounts = got.deltas, got.deltas
	s.tellers, s.branches = got.tellers, got.tellers
}

// check compares the tables with what acknowledged transactions wrote. If there may be more, it looks only for rows
// that are missing.
func (s sums) check(wrote sums, more bool) error {
	switch {
	case s.history < wrote.history:
		return fmt.Errorf("lost commits: the server acknowledged %d transactions with a row of history, and has %d rows",
			wrote.history, s.history)
	case more:
		return nil
	case s.history > wrote.history:
		return fmt.Errorf("the history has %d rows, and the server acknowledged only %d", s.history, wrote.history)
	}
	for _, one := range []struct {
		table     string
		got, want int64
	}{
		{"history", s.deltas, wrote.deltas},
		{"accounts", s.accounts, wrote.accounts},
		{"tellers", s.tellers, wrote.tellers},
		{"branches", s.branches, wrote.branches},
	} {
		if one.got != one.want {
			return fmt.Errorf("lost commits or damaged tables: the amounts in %s add up to %d, and those that the server "+
				"acknowledged to %d", one.table, one.got, one.want)
		}
	}
	return nil
}
