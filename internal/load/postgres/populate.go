package postgres

import (
	"context"
	"fmt"
	"io"
	"strconv"
)

// AccountsPerScale and the others are the numbers of rows of pgbench's tables for each unit of their
// scale.
const (
	AccountsPerScale = 100_000
	TellersPerScale  = 10
	BranchesPerScale = 1
)

// MaxScale is the largest scale of the tables: 15 TB.
const MaxScale = 1_000_000

// bigScale is the scale from which pgbench makes aid a bigint.
const bigScale = 20_000

// Populate makes pgbench's tables of a scale, in place of tables of the same names, as pgbench -i
// does. Unlike there, all rows are frozen: nothing is left to do for a vacuum.
func Populate(ctx context.Context, c *Conn, scale int) error {
	if scale < 1 || scale > MaxScale {
		return fmt.Errorf("scale %d: want 1 to %d", scale, MaxScale)
	}
	err := makeTables(ctx, c, scale)
	if err != nil {
		_ = c.Exec(ctx, "ROLLBACK") // the first error is the one that matters
		return fmt.Errorf("make pgbench's tables at scale %d: %w", scale, err)
	}
	return nil
}

func makeTables(ctx context.Context, c *Conn, scale int) error {
	// Rows can be frozen as they are copied if their table was truncated in the same transaction.
	if err := execAll(ctx, c, tables(scale), "BEGIN", "TRUNCATE "+tableNames, small(scale)); err != nil {
		return err
	}
	rows, err := c.CopyIn(ctx, "COPY pgbench_accounts FROM STDIN WITH (FREEZE ON)", &accounts{last: accountsOf(scale)})
	if err != nil {
		return err
	}
	if rows != accountsOf(scale) {
		return fmt.Errorf("the server has taken %d accounts of %d", rows, accountsOf(scale))
	}
	return execAll(ctx, c, "COMMIT",
		"VACUUM (FREEZE, ANALYZE) pgbench_branches",
		"VACUUM (FREEZE, ANALYZE) pgbench_tellers",
		"VACUUM (FREEZE, ANALYZE) pgbench_accounts",
		"VACUUM (FREEZE, ANALYZE) pgbench_history",
		"ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid)",
		"ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid)",
		"ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)")
}

func execAll(ctx context.Context, c *Conn, statements ...string) error {
	for _, sql := range statements {
		if err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func accountsOf(scale int) int64 { return AccountsPerScale * int64(scale) }

const tableNames = "pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"

// tables drops and creates the tables. TPC-B asks for rows of 100 bytes, which the fillers give.
func tables(scale int) string {
	key := "int"
	if scale >= bigScale {
		key = "bigint"
	}
	return "DROP TABLE IF EXISTS " + tableNames + ";" +
		"CREATE TABLE pgbench_history(tid int, bid int, aid " + key + ", delta int, mtime timestamp, filler char(22));" +
		"CREATE TABLE pgbench_tellers(tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor=100);" +
		"CREATE TABLE pgbench_accounts(aid " + key +
		" NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor=100);" +
		"CREATE TABLE pgbench_branches(bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor=100)"
}

// small fills the small tables.
func small(scale int) string {
	return fmt.Sprintf("INSERT INTO pgbench_branches(bid, bbalance) SELECT bid, 0 FROM generate_series(1, %d) bid;"+
		"INSERT INTO pgbench_tellers(tid, bid, tbalance) SELECT tid, (tid - 1) / %d + 1, 0 FROM generate_series(1, %d) tid",
		scale*BranchesPerScale, TellersPerScale, scale*TellersPerScale)
}

// accounts reads as the rows of pgbench_accounts in COPY's text format.
type accounts struct {
	done, last int64
	rest       []byte // what was made and not yet read
}

// Read implements io.Reader.
func (a *accounts) Read(p []byte) (int, error) {
	for len(a.rest) < len(p) && a.done < a.last {
		bid := a.done/AccountsPerScale + 1
		a.done++
		a.rest = append(strconv.AppendInt(a.rest, a.done, 10), '\t')
		a.rest = append(strconv.AppendInt(a.rest, bid, 10), "\t0\t\n"...)
	}
	if len(a.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, a.rest)
	a.rest = append(a.rest[:0], a.rest[n:]...)
	return n, nil
}
