package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/loadtest"
	"github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/load/postgres/postgrestest"
	"github.com/tare-bench/tare/internal/load/turn"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func run(t testing.TB, s *postgrestest.Server, words ...string) (*load.Report, error) {
	t.Helper()
	return postgres.Run(loadtest.Args(s.Words(words...)...))
}

func mustRun(t testing.TB, s *postgrestest.Server, words ...string) *load.Report {
	t.Helper()
	r, err := run(t, s, words...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sums are what transactions leave in the tables.
func sums(t testing.TB, c *postgres.Conn) []string {
	t.Helper()
	rows, err := c.Query(t.Context(), `SELECT (SELECT count(*) FROM pgbench_history),
		(SELECT coalesce(sum(delta), 0) FROM pgbench_history), (SELECT sum(abalance) FROM pgbench_accounts),
		(SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches)`)
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

func populate(t testing.TB, c *postgres.Conn, scale int) {
	t.Helper()
	if err := postgres.Populate(t.Context(), c, scale); err != nil {
		t.Fatal(err)
	}
}

// Each script leaves in the tables what the load says that it has committed.
func TestScripts(t *testing.T) {
	t.Parallel() // no time is asserted, and the server is its own
	s := postgrestest.Start(t, postgrestest.Options{Settings: []string{"fsync=off"}})
	c := s.Connect(t)
	populate(t, c, 2)
	for _, script := range postgres.Scripts() {
		for _, connect := range []string{"once", "each"} {
			t.Run(script+" "+connect, func(t *testing.T) {
				if err := c.Exec(t.Context(), "TRUNCATE pgbench_history; UPDATE pgbench_accounts SET abalance = 0 "+
					"WHERE abalance <> 0; UPDATE pgbench_tellers SET tbalance = 0; UPDATE pgbench_branches SET bbalance = 0",
				); err != nil {
					t.Fatal(err)
				}
				r := mustRun(t, s, "script="+script, "connect="+connect, "scale=2", "clients=3", "time=200ms", "warmup=50ms")
				v := r.Values
				if v["rate"] <= 0 || v["transactions"] <= 0 || v["committed"] < v["transactions"] || v["failed"] != 0 ||
					v["time.p50"] <= 0 || v["time.max"] < v["time.p50"] || v["connect.p50"] <= 0 || v["cpu_each"] <= 0 {
					t.Errorf("values %v", v)
				}
				history, account, small := postgres.Writes(script)
				got := sums(t, c)
				if history && got[0] != fmt.Sprint(v["committed"]) || !history && got[0] != "0" {
					t.Errorf("%s rows in pgbench_history, committed are %v", got[0], v["committed"])
				}
				if history && got[1] != fmt.Sprint(v["delta"]) || account && got[2] != fmt.Sprint(v["delta"]) {
					t.Errorf("the deltas of history add up to %s, of accounts to %s, committed are %v", got[1], got[2], v["delta"])
				}
				if history && account && got[1] != got[2] || small && (got[2] != got[3] || got[3] != got[4]) ||
					account != (got[2] != "0") || small != (got[4] != "0") {
					t.Errorf("rows, and sums of deltas, accounts, tellers, branches: %v", got)
				}
				if _, ok := v["stmt.end.p50"]; ok != (script != postgres.SelectOnly && account && history) {
					t.Errorf("stmt.end.p50: %v", ok)
				}
			})
		}
	}
}

// An open loop keeps its rate, and times each transaction from when it was due.
func TestOpenLoop(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{})
	populate(t, s.Connect(t), 1)
	stop := time.AfterFunc(500*time.Millisecond, func() { signalBackends(t, s, syscall.SIGSTOP) })
	defer stop.Stop()
	resume := time.AfterFunc(900*time.Millisecond, func() { signalBackends(t, s, syscall.SIGCONT) })
	defer resume.Stop()
	r := mustRun(t, s, "rate=200", "clients=2", "time=1500ms", "warmup=100ms")
	if got := r.Values["transactions"]; got < 298 || got > 302 {
		t.Errorf("%v transactions began, want 300", got)
	}
	if got := r.Values["time.max"]; got < 0.3 {
		t.Errorf("the longest took %v s, but the server stood still for 0.4 s", got)
	}
}

// signalBackends sends a signal to all of the server's processes.
func signalBackends(t testing.TB, s *postgrestest.Server, signal syscall.Signal) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.Process.Pid, s.Process.Pid))
	if err != nil {
		t.Error(err)
	}
	for pid := range strings.FieldsSeq(string(children)) {
		var n int
		if _, err := fmt.Sscan(pid, &n); err == nil {
			_ = syscall.Kill(n, signal) // it may have ended
		}
	}
}

// A server's refusals are counted by kind, and never timed.
func TestFailures(t *testing.T) {
	t.Parallel() // no time is asserted, and the server is its own
	s := postgrestest.Start(t, postgrestest.Options{Settings: []string{"fsync=off"}})
	c := s.Connect(t)
	populate(t, c, 1)
	exec := func(sql string) {
		t.Helper()
		if err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'")
	r := mustRun(t, s, "script="+postgres.TPCBLike, "clients=4", "time=300ms", "warmup=100ms")
	v := r.Values
	if v["failed.serialization"] == 0 || v["failed"] != v["failed.serialization"] || v["transactions"] == 0 {
		t.Errorf("values %v", v)
	}
	if diff := cmp.Diff([]string{postgres.NoteClosedLoop, postgres.NoteFailed}, r.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if all := fmt.Sprint(v["committed"] + v["refused"]); all != r.Facts["sent"] || v["refused"] <= v["failed"] {
		t.Errorf("%s committed and refused, of which %v failed; %s were begun", all, v["failed"], r.Facts["sent"])
	}
	if got := sums(t, c); got[0] != fmt.Sprint(v["committed"]) || got[1] != got[4] {
		t.Errorf("sums %v, committed %v", got, v["committed"])
	}
	exec("ALTER DATABASE postgres RESET default_transaction_isolation")

	exec("ALTER TABLE pgbench_history ADD CHECK (delta < 0) NOT VALID")
	r = mustRun(t, s, "script="+postgres.Insert, "time=200ms", "warmup=0s")
	if r.Values["failed.other"] == 0 || !strings.Contains(r.Facts["failed.other"], "23514") {
		t.Errorf("values %v, facts %v", r.Values, r.Facts)
	}
	for words, want := range map[string]string{
		"scale=2":            "do pgbench's tables have the scale of this load?",
		"database=none":      `database "none" does not exist (SQLSTATE 3D000)`,
		"user=none":          `role "none" does not exist (SQLSTATE 28000)`,
		"tls=yes":            "the agent has no TLS",
		"clients=999":        "SQLSTATE 53300",
		"socket=/tmp":        "either address=IP:PORT or socket=DIR",
		"unknown=1":          `no option "unknown"`,
		"script=all scale=0": "script=all: want one of select-only, tpcb-like",
	} {
		if _, err := run(t, s, append(strings.Fields(words), "time=5s", "warmup=0s")...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
	exec("DROP TABLE pgbench_history")
	if _, err := run(t, s, "script=insert"); err == nil || !strings.Contains(err.Error(), "42P01") {
		t.Errorf("without a table: %v", err)
	}
}

// A lost connection is an error, at once.
func TestLost(t *testing.T) {
	t.Parallel() // no time is asserted, and the server is its own
	s := postgrestest.Start(t, postgrestest.Options{})
	c := s.Connect(t)
	populate(t, c, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		_ = c.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
			"WHERE application_name = 'tare' AND pid <> pg_backend_pid() LIMIT 1")
	})
	began := time.Now()
	_, err := run(t, s, "clients=2", "time=20s")
	var told *postgres.ServerError
	if !errors.As(err, &told) || told.Code != "57P01" || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	time.AfterFunc(300*time.Millisecond, func() { signalBackends(t, s, syscall.SIGKILL) })
	if _, err = run(t, s, "clients=2", "time=20s"); !errors.Is(err, postgres.ErrLost) && !errors.As(err, &told) {
		t.Errorf("a killed server: %v", err)
	}
}

// All ways to log in, by TCP and by socket.
func TestLogin(t *testing.T) {
	t.Parallel() // no time is asserted, and the server is its own
	s := postgrestest.Start(t, postgrestest.Options{HBA: "host all postgres all trust\nlocal all postgres trust\n" +
		"host all scram all scram-sha-256\nhost all md5 all md5\nhost all clear all password\n"})
	c := s.Connect(t)
	if err := c.Exec(t.Context(), "CREATE ROLE scram LOGIN PASSWORD 'pw'; CREATE ROLE clear LOGIN PASSWORD 'pw'; "+
		"SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'pw'"); err != nil {
		t.Fatal(err)
	}
	populate(t, c, 1)
	if err := c.Exec(t.Context(), "GRANT ALL ON pgbench_accounts TO PUBLIC"); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"scram", "md5", "clear"} {
		for password, want := range map[string]string{
			"pw": "", "wrong": "SQLSTATE 28P01", "": postgres.ErrPassword.Error(),
		} {
			config := s.Config
			config.User, config.Database, config.Password = user, "postgres", password
			mine, err := postgres.Dial(t.Context(), config)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s with password %q: %v, want %q", user, password, err, want)
			}
			if err == nil {
				_ = mine.Close() // never returns an error
			}
		}
		for _, connect := range []string{"once", "each"} {
			r := mustRun(t, s, "user="+user, "database=postgres", "password=pw", "connect="+connect, "time=100ms", "warmup=0s")
			if r.Values["transactions"] < 1 {
				t.Errorf("%s: %v", user, r.Values)
			}
		}
	}
	r, err := postgres.Run(loadtest.Args("socket="+s.Dir, fmt.Sprintf("port=%d", s.Port), "time=100ms"))
	if err != nil || r.Values["transactions"] < 1 {
		t.Errorf("by socket: %v", err)
	}
}

// The small client reads what it is asked for, and survives a statement's error.
func TestConn(t *testing.T) {
	t.Parallel() // no time is asserted, and the server is its own
	s := postgrestest.Start(t, postgrestest.Options{})
	c, err := postgres.Dial(t.Context(), s.BySocket())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.Query(t.Context(), "SELECT 1, NULL, 'ä' UNION ALL SELECT 2, 'b', ''")
	if diff := cmp.Diff([][]string{{"1", "", "ä"}, {"2", "b", ""}}, rows); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var told *postgres.ServerError
	if _, err := c.Query(t.Context(), "SELECT 1/0"); !errors.As(err, &told) || told.Code != "22012" {
		t.Errorf("division by zero: %v", err)
	}
	if !strings.HasPrefix(c.Parameter("server_version"), "1") || c.TLS() {
		t.Errorf("version %q, TLS %v", c.Parameter("server_version"), c.TLS())
	}
	if err := c.Exec(t.Context(), "CREATE TABLE a(b int, c text); INSERT INTO a VALUES (1, 'x')"); err != nil {
		t.Error(err)
	}
	if n, err := c.CopyIn(t.Context(), "COPY a FROM STDIN", strings.NewReader("2\ty\n3\t\\N\n")); n != 2 || err != nil {
		t.Errorf("copied %d rows: %v", n, err)
	}
	if _, err := c.CopyIn(t.Context(), "COPY a FROM STDIN", strings.NewReader("no number\ty\n")); !errors.As(err, &told) {
		t.Errorf("a wrong row: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Exec(ctx, "SELECT pg_sleep(60)"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	if err := c.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("an interrupted connection can be used again")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c = s.Connect(t)
	_, err = c.Query(t.Context(), "SELECT repeat('x', 100000) FROM generate_series(1, 1000)")
	if !errors.Is(err, postgres.ErrTooLong) {
		t.Errorf("100 MB: %v", err)
	}
}

// The tables are those that pgbench makes.
func TestPopulate(t *testing.T) {
	t.Parallel() // no time is asserted, and the server is its own
	pgbench := postgrestest.Program(t, "pgbench")
	s := postgrestest.Start(t, postgrestest.Options{Settings: []string{"fsync=off"}})
	c := s.Connect(t)
	describe := func() (all [][]string) {
		for _, sql := range []string{
			"SELECT relname, relkind, reltuples, relpages, relallvisible, reloptions FROM pg_class " +
				"WHERE relname LIKE 'pgbench%' ORDER BY relname",
			"SELECT attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute " +
				"JOIN pg_class ON pg_class.oid = attrelid WHERE relname LIKE 'pgbench%' AND attnum > 0 ORDER BY 1, attnum",
			"SELECT count(*), sum(aid), sum(bid), sum(abalance), max(length(filler)), count(filler) FROM pgbench_accounts",
			"SELECT tid, bid, tbalance, filler FROM pgbench_tellers ORDER BY tid",
			"SELECT bid, bbalance, filler FROM pgbench_branches ORDER BY bid",
			"SELECT count(*) FROM pgbench_history",
		} {
			rows, err := c.Query(t.Context(), sql)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rows...)
		}
		return all
	}
	pgbenchInit(t, pgbench, s, 2)
	want := describe()
	populate(t, c, 2)
	if diff := cmp.Diff(want, describe()); diff != "" {
		t.Errorf("(-pgbench +tare):\n%s", diff)
	}
	if err := postgres.Populate(t.Context(), c, 0); err == nil {
		t.Error("scale 0 was made")
	}
}

// A server that stops while it is asked, or that is another one, is named in the error.
func TestNoServer(t *testing.T) {
	dir := t.TempDir()
	for words, want := range map[string]string{
		"address=127.0.0.1:1":                 "127.0.0.1:1: connection refused",
		"socket=" + dir:                       filepath.Join(dir, ".s.PGSQL.5432") + ": no such file or directory",
		"address=127.0.0.1:1 wait=50ms":       "wait for the server for 50ms",
		"":                                    "either address=IP:PORT or socket=DIR",
		"socket=/" + strings.Repeat("x", 200): "want 1 to 107",
		"address=localhost:5432":              "want IP:PORT",
	} {
		_, err := postgres.Run(loadtest.Args(strings.Fields(words)...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
}

func pgbenchInit(t testing.TB, pgbench string, s *postgrestest.Server, scale int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), pgbench, "-i", "-q", "-s", fmt.Sprint(scale), "-U", "postgres",
		"-h", s.Dir, "-p", fmt.Sprint(s.Port), "postgres").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A load of reads takes turns, and measures a stretch that nothing interrupts; all of its transactions
// are counted.
func TestTurns(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{})
	populate(t, s.Connect(t), 1)
	page, err := turn.NewPage(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	giver, err := turn.Open(t.Context(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(giver.Close(), syscall.Close(turn.FD)); err != nil {
			t.Error(err)
		}
	})
	reports := make(chan *load.Report, 1)
	go func() {
		defer page.Reported(true)
		args := loadtest.Args(s.Words("clients=3", "time=1s", "warmup=50ms")...)
		args.Turns = page
		r, err := postgres.Run(args)
		if err != nil {
			t.Error(err)
		}
		reports <- r
	}()
	turns := 0
	for err := giver.Await(t.Context()); giver.Reports() == 0; turns++ {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // others have the turn
		err = giver.Give(t.Context(), 5*time.Millisecond)
	}
	r := <-reports
	if turns < 20 || r == nil { // there is room for 200; on a busy machine a slice takes longer than it should
		t.Fatalf("%d turns of 5 ms in 1050 ms", turns)
	}
	for _, name := range postgres.Stretches() {
		if r.Values[name] <= 0 || r.Values[name+load.StretchSuffix] <= 0 {
			t.Errorf("%s: %v, in a stretch %v", name, r.Values[name], r.Values[name+load.StretchSuffix])
		}
	}
	if sent := fmt.Sprint(r.Values["committed"]); sent != r.Facts["sent"] {
		t.Errorf("%s transactions were committed, %s were begun", sent, r.Facts["sent"])
	}
}
