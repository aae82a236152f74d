package postgres_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/postgres/postgrestest"
	"github.com/tare-bench/tare/internal/workload/postgres"
)

// wantFailed wants a trial to have failed for a reason in which these words stand.
func wantFailed(t *testing.T, s bench.Sample, words ...string) {
	t.Helper()
	if s.Outcome != bench.Failed {
		t.Errorf("%s: %s; want failed", s.Outcome, s.Reason)
	}
	for _, one := range words {
		if !strings.Contains(s.Reason, one) {
			t.Errorf("%s\nwant %q", s.Reason, one)
		}
	}
}

// A server that says that it has committed what it has not is found out by what its tables hold.
func TestLostCommits(t *testing.T) {
	e := engine(t, "native")
	for name, tt := range map[string]struct{ instead, want string }{
		"a commit that was none": {"ROLLBACK", "lost commits: the server acknowledged"},
		"a row that went": {
			"DELETE FROM pgbench_history WHERE ctid IN (SELECT ctid FROM pgbench_history LIMIT 1)",
			"lost commits: the server acknowledged",
		},
		"an amount that was added": {
			"UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1", "the amounts in tellers add up to",
		},
	} {
		if testing.Short() && name != "a commit that was none" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := listen(t, tt.instead)
			s := measure(t, elsewhere{e, l.leadTo}, bench.Spec{}, 1, "parts", "write1", "fsync", "off")[0]
			wantFailed(t, s, tt.want)
		})
	}
}

// A commit whose acknowledgement never comes is not lost: the part fails because of the connection.
func TestDroppedAcknowledgement(t *testing.T) {
	l := dropping(t)
	s := measure(t, elsewhere{engine(t, "native"), l.leadTo}, bench.Spec{}, 1, "parts", "write1", "fsync", "off")[0]
	wantFailed(t, s, "connection")
	if strings.Contains(s.Reason, "lost commits") {
		t.Errorf("a commit counts as lost: %s", s.Reason)
	}
}

// Another server at the same address is not taken for the cell's.
func TestAnotherServer(t *testing.T) {
	e := engine(t, "native")
	other := postgrestest.Start(t, postgrestest.Options{})
	if err := other.Connect(t).Exec(t.Context(), "ALTER ROLE postgres PASSWORD 'another'"); err != nil {
		t.Fatal(err)
	}
	hba := filepath.Join(other.Data, "pg_hba.conf")
	if err := os.WriteFile(hba, []byte("host all all all scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // until it has read that
	lead := func(netip.AddrPort) netip.AddrPort { return other.Address }
	s := measure(t, elsewhere{e, lead}, bench.Spec{}, 1, "parts", "read1")[0]
	wantFailed(t, s, "SQLSTATE 28P01", "it does not accept tare's password: does another server listen there?")
}

// A cluster that another major version has made is not started, and the error says so.
func TestOtherMajor(t *testing.T) {
	e := engine(t, "native")
	s := measureAs(t, postgres.NewPlanted(t, postgres.OtherMajor), e, bench.Spec{}, 1, "parts", "read1")[0]
	wantFailed(t, s, "the cluster was made by another major version than that of the server")
}

// What is read back of the copy, the server and its processes is compared with what was asked for and with other cells.
func TestReadBack(t *testing.T) {
	e := engine(t, "native")
	for name, tt := range map[string]struct {
		plant postgres.Plant
		want  string
	}{
		"the copy":      {postgres.LargerCluster, "the copy of the cluster has"},
		"the server":    {postgres.OtherCluster, "system identifier"},
		"its processes": {postgres.OtherCPUs, "CPUs of process"},
		"its data":      {postgres.OtherData, "data on"},
		"its user":      {postgres.OtherUser, "user"},
		"its settings":  {postgres.OtherSetting, "but native has none"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "its processes" && runtime.NumCPU() < 2 {
				t.Skip("the server has CPUs of its own only where there are two")
			}
			wantFailed(t, measureAs(t, postgres.NewPlanted(t, tt.plant), e, bench.Spec{}, 1, "parts", "read1")[0], tt.want)
		})
	}
}

// Data that cannot be written are told before or by the trial, with what to do.
func TestReadOnlyData(t *testing.T) {
	e := engine(t, "runc")
	spec := bench.Spec{Network: "host", Storage: "layer", Security: bench.Security{ReadOnly: true}}
	s := measure(t, e, spec, 1, "parts", "read1")[0]
	if s.Outcome != bench.Unsupported || !strings.Contains(s.Reason, "use bind, tmpfs or volume") {
		t.Errorf("a layer that is only read: %s: %s", s.Outcome, s.Reason)
	}
	dir := mounted(t, "tmpfs", unix.MS_RDONLY, "size=1g")
	wantFailed(t, measure(t, engine(t, "native"), bench.Spec{Data: dir}, 1, "parts", "read1")[0], "read-only file system")
}

// A disk that fills up during a part fails it.
func TestDiskFull(t *testing.T) {
	e := engine(t, "native")
	dir := mounted(t, "tmpfs", 0, "size=2g")
	before := sharedMemory(t)
	done := make(chan error, 1)
	go func() {
		done <- whenWorking(dir, isPostmaster, 30*time.Second, func(int) error { return shrink(dir) })
	}()
	// A table that has to grow fails, soon after.
	s := measureAs(t, postgres.NewShared(t), e, bench.Spec{Data: dir}, 1, "parts", "load", "script", "tpcb-like", "time",
		"20s")[0]
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantFailed(t, s, "is full", "choose another")
	nothingLeft(t, before)
}

// shrink leaves no room in a tmpfs. To write it full would take as long as the part, on a busy machine.
func shrink(dir string) error {
	for range 1000 {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			return err
		}
		size := fmt.Sprintf("size=%d", (int64(s.Blocks)-int64(s.Bfree))*s.Bsize)
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, size); !errors.Is(err, unix.EINVAL) { // it has grown
			return err
		}
	}
	return errors.New("it always grows")
}

// A server that has too little memory is told so, whichever of its processes the kernel ends.
func TestOutOfMemory(t *testing.T) {
	e := engine(t, "runc")
	spec := bench.Spec{Network: "host", Limits: bench.Limits{Memory: 48 << 20}}
	s := measure(t, e, spec, 1, "parts", "read", "clients", "60", "time", "2s")[0]
	said := strings.Contains(s.Reason, "raise memory") || strings.Contains(s.Reason, "out of memory")
	if s.Outcome != bench.Failed || !said {
		t.Errorf("%s: %s", s.Outcome, s.Reason)
	}
}

// Where fsync means nothing, the report says so: on an overlay that ignores it, and in memory.
func TestSyncMeansNothing(t *testing.T) {
	e := engine(t, "native")
	base, err := os.MkdirTemp("/var/tmp", "tare-overlay-")     // not a tmpfs
	if err := cmp.Or(err, os.Chmod(base, 0o711)); err != nil { // the server does not run as root
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	var layers []string
	for _, name := range []string{"lower", "upper", "work"} {
		layers = append(layers, name+"dir="+filepath.Join(base, name))
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	overlay := mounted(t, "overlay", 0, strings.Join(append(layers, "volatile"), ","))
	syncTime := map[string]float64{}
	for name, dir := range map[string]string{
		"": base, postgres.NoteVolatile: overlay, postgres.NoteInMemory: mounted(t, "tmpfs", 0, "size=700m"),
	} {
		if testing.Short() && name != postgres.NoteVolatile {
			continue
		}
		s := measure(t, e, bench.Spec{Data: dir}, 1, "parts", "write1")
		syncTime[name] = good(t, s)["write1.server.sync_time"]
		for _, note := range []string{postgres.NoteVolatile, postgres.NoteInMemory} {
			if slices.Contains(s[0].Notes, note) != (note == name) {
				t.Errorf("data in %s: notes %q", dir, s[0].Notes)
			}
		}
	}
	// A sync of a disk takes many times as long as one that does nothing.
	if testing.Short() {
		return
	}
	for name, took := range syncTime {
		if name != "" && took > syncTime[""]/2 {
			t.Errorf("%s: %v s of syncs for each transaction, on a disk %v", name, took, syncTime[""])
		}
	}
}

// A delay between clients and server is in the times, with its size.
func TestDelay(t *testing.T) {
	e := engine(t, "native")
	const delay, most = time.Millisecond, 3 * time.Millisecond // a sleep takes longer than it should
	direct := 0.0
	if !testing.Short() {
		direct = good(t, measure(t, e, bench.Spec{}, 1, "parts", "read1"))["read1.time.p50"]
	}
	l := delaying(t, delay)
	later := good(t, measure(t, elsewhere{e, l.leadTo}, bench.Spec{}, 1, "parts", "read1"))["read1.time.p50"]
	if got := later - direct; got < delay.Seconds() || got > most.Seconds() {
		t.Errorf("the median is %v s, without the delay %v s; want %v more", later, direct, delay)
	}
}

// Too little shared memory for queries in parallel is told with what to do.
func TestSmallSharedMemory(t *testing.T) {
	e := engine(t, "runc")
	script := filepath.Join(t.TempDir(), "join.sql")
	text := "SELECT count(a.filler) FROM pgbench_accounts a JOIN pgbench_accounts b ON a.aid = b.aid + 1;\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	joining := func(shm int64) bench.Sample {
		return measure(t, e, bench.Spec{Network: "host", Shm: shm}, 1, "tool", "pgbench", "parts", "load", "clients", "1",
			"time", "5s", "script", script, "set", "max_parallel_workers_per_gather=2,min_parallel_table_scan_size=0,parallel_setup_cost=0,"+
				"parallel_tuple_cost=0,enable_mergejoin=off,enable_nestloop=off,work_mem=32MB")[0]
	}
	wantFailed(t, joining(1<<20), "/dev/shm is too small: raise shm")
	if testing.Short() {
		return
	}
	if s := joining(256 << 20); s.Outcome != bench.OK {
		t.Errorf("with enough of it: %s: %s", s.Outcome, s.Reason)
	}
}

// A server that stands still for a second in ten is seen in the open loop's percentiles, and the closed loop is
// labelled.
func TestStandsStill(t *testing.T) {
	if testing.Short() { // which has this for the load alone
		return
	}
	e := engine(t, "native")
	own, err := filepath.EvalSymlinks(filepath.Dir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- whenWorking(own, isServing, 30*time.Second, func(pid int) error {
			time.Sleep(3 * time.Second)
			return errors.Join(signalFamily(pid, unix.SIGSTOP), sleepFor(time.Second), signalFamily(pid, unix.SIGCONT))
		})
	}()
	s := measure(t, e, bench.Spec{}, 1, "parts", "load", "rate", "200", "time", "10s")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// A tenth of the transactions was due while it stood still, so a hundredth waited for 0.9 s or longer.
	if p99 := good(t, s)["load.time.p99"]; p99 < 0.7 || p99 > 1.2 {
		t.Errorf("p99 of %v s, want about 0.9", p99)
	}
	s = measure(t, e, bench.Spec{}, 1, "parts", "load")
	if good(t, s); !slices.Contains(s[0].Notes, "closed-loop") {
		t.Errorf("notes of the closed loop: %q", s[0].Notes)
	}
}

func sleepFor(d time.Duration) error { time.Sleep(d); return nil }

// signalFamily sends a signal to a process and its children.
func signalFamily(pid int, signal unix.Signal) error {
	err := unix.Kill(pid, signal)
	for _, child := range children(pid) {
		var n int
		if _, scanned := fmt.Sscan(child, &n); scanned == nil {
			_ = unix.Kill(n, signal) // it may have ended
		}
	}
	return err
}

// isServing reports whether a process is the server itself, with a client.
func isServing(pid int) bool {
	if !strings.Contains(cmdline(pid), "/pgdata") {
		return false
	}
	clients := 0
	for _, child := range children(pid) {
		var n int
		if _, err := fmt.Sscan(child, &n); err == nil && strings.Contains(cmdline(n), "postgres postgres ") {
			clients++
		}
	}
	return clients > 1 // tare's own is one
}

// mounted mounts a file system in a directory until the end of the test.
func mounted(t *testing.T, kind string, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // the server does not run as root
		t.Fatal(err)
	}
	if err := unix.Mount(kind, dir, kind, flags, options); err != nil {
		t.Skipf("this test needs the right to mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
