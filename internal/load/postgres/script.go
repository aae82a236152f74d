package postgres

import (
	"encoding/binary"
	"strconv"
)

// The scripts: pgbench's built-in ones, and those of pgbench-tools. NoBranch is another name of
// SimpleUpdate.
const (
	SelectOnly   = "select-only"
	TPCBLike     = "tpcb-like"
	SimpleUpdate = "simple-update"
	NoBranch     = "nobranch"
	Insert       = "insert"
	Update       = "update"
)

// Scripts lists the names of the scripts.
func Scripts() []string {
	return []string{SelectOnly, TPCBLike, SimpleUpdate, NoBranch, Insert, Update}
}

// Writes returns what each transaction of a script that ends well leaves in the tables: whether a row
// in pgbench_history, its delta in the balance of an account, and in those of a teller and a branch.
func Writes(script string) (history, account, tellerAndBranch bool) {
	switch script {
	case TPCBLike:
		return true, true, true
	case SimpleUpdate, NoBranch:
		return true, true, false
	case Insert:
		return true, false, false
	case Update:
		return false, true, false
	default:
		return false, false, false
	}
}

// A parameter is a random number that a statement gets.
type parameter int

// The parameters, as in pgbench's scripts.
const (
	aid parameter = iota
	bid
	tid
	delta
	parameters
)

// A statement is one of a script.
type statement struct {
	name       string // for its metric, and on the server
	sql        string
	simple     bool // it is sent as text each time: BEGIN and END
	parameters []parameter
	rows       int    // that it returns
	tag        string // how the server confirms it

	bind    []byte // the beginning of its message
	execute []byte // the end of its message
}

// A script is a transaction.
type script struct {
	name       string
	statements []statement
}

func scriptOf(name string) *script {
	updateAccounts := prepared("update_accounts",
		"UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", 0, "UPDATE 1", delta, aid)
	selectAccounts := prepared("select", "SELECT abalance FROM pgbench_accounts WHERE aid = $1", 1, "SELECT 1", aid)
	insertHistory := prepared("insert_history",
		"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
		0, "INSERT 0 1", tid, bid, aid, delta)
	begin, end := simple("begin", "BEGIN", "BEGIN"), simple("end", "END", "COMMIT")

	s := &script{name: name}
	switch name {
	case TPCBLike:
		s.statements = []statement{
			begin, updateAccounts, selectAccounts,
			prepared("update_tellers",
				"UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", 0, "UPDATE 1", delta, tid),
			prepared("update_branches",
				"UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", 0, "UPDATE 1", delta, bid),
			insertHistory, end,
		}
	case SimpleUpdate, NoBranch:
		s.statements = []statement{begin, updateAccounts, selectAccounts, insertHistory, end}
	case Insert:
		s.statements = []statement{insertHistory}
	case Update:
		s.statements = []statement{updateAccounts}
	default:
		s.statements = []statement{selectAccounts}
	}
	return s
}

func simple(name, sql, tag string) statement {
	return statement{
		name: name, sql: sql, simple: true, tag: tag, execute: appendMessage(nil, toQuery, sql+"\x00"),
	}
}

// prepared is a statement that is prepared once, and then bound and executed as libpq does it:
// parameters and results are text.
func prepared(name, sql string, rows int, tag string, parameters ...parameter) statement {
	s := statement{name: name, sql: sql, rows: rows, tag: tag, parameters: parameters}
	s.bind = append(open(nil, toBind), 0) // the portal without a name
	s.bind = append(append(s.bind, name...), 0)
	s.bind = append(s.bind, 0, 0, 0, byte(len(parameters)))
	s.execute = append(open(nil, toExecute), 0, 0, 0, 0, 0) // the same portal, all rows
	s.execute = appendSync(seal(s.execute, 0))
	return s
}

// appendTo appends the message that executes the statement with values of its parameters.
func (s *statement) appendTo(p []byte, values *[parameters]int64) []byte {
	if s.simple {
		return append(p, s.execute...)
	}
	start := len(p)
	p = append(p, s.bind...)
	for _, name := range s.parameters {
		at := len(p)
		p = strconv.AppendInt(append(p, 0, 0, 0, 0), values[name], 10)
		binary.BigEndian.PutUint32(p[at:], uint32(len(p)-at-4))
	}
	return append(seal(append(p, 0, 0), start), s.execute...) // no formats of results
}

// prepare is the message that prepares the statements of the script.
func (s *script) prepare() (p []byte) {
	for _, one := range s.statements {
		if !one.simple {
			p = appendParse(p, one.name, one.sql)
		}
	}
	return appendSync(p)
}

// random is a source of random numbers: SplitMix64 (Steele, Lea, Flood 2014).
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between returns a number from 1 to n, each about equally often: n is far below 2^64.
func (r *random) between(n int64) int64 { return 1 + int64(r.next()%uint64(n)) }

// draw draws the parameters of a transaction.
func (r *random) draw(scale int64, values *[parameters]int64) {
	const highestDelta = 5000
	values[aid] = r.between(AccountsPerScale * scale)
	values[bid] = r.between(BranchesPerScale * scale)
	values[tid] = r.between(TellersPerScale * scale)
	values[delta] = r.between(2*highestDelta+1) - highestDelta - 1
}
