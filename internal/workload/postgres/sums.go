package postgres

import (
	"context"
	"fmt"
	"strconv"
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

// check compares the tables with the transactions that were acknowledged: all wrote a row of history
// and one of accounts, and those of tpcb-like one of tellers and one of branches too. onlyTPCB says
// that all were tpcb-like.
func (s sums) check(committed int64, onlyTPCB bool) error {
	switch {
	case s.history < committed:
		return fmt.Errorf("lost commits: the server acknowledged %d transactions, and its tables have %d",
			committed, s.history)
	case s.history > committed:
		return fmt.Errorf("the tables have %d transactions, and the server acknowledged only %d", s.history, committed)
	case s.deltas != s.accounts:
		return fmt.Errorf("damaged tables: the history adds up to %d, and the accounts to %d", s.deltas, s.accounts)
	case onlyTPCB && (s.tellers != s.deltas || s.branches != s.deltas):
		return fmt.Errorf("damaged tables: the history adds up to %d, the tellers to %d, and the branches to %d",
			s.deltas, s.tellers, s.branches)
	}
	return nil
}
