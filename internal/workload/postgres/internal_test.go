package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	report "github.com/tare-bench/tare/internal/load"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/load/postgres/postgrestest"
	"github.com/tare-bench/tare/internal/load/postgrestls"
	"github.com/tare-bench/tare/internal/load/turn"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

func TestSums(t *testing.T) {
	var wrote sums
	wrote.add(scriptTPCB, 10, 7)
	good := sums{history: 10, deltas: 7, accounts: 7, tellers: 7, branches: 7}
	with := func(change func(*sums)) sums { s := good; change(&s); return s }
	for _, tt := range []struct {
		name string
		got  sums
		want string
	}{
		{"all there", good, ""},
		{"a lost commit", with(func(s *sums) { s.history = 9 }), "lost commits"},
		{"a row too many", with(func(s *sums) { s.history = 11 }), "acknowledged only 10"},
		{"another amount", with(func(s *sums) { s.deltas++ }), "amounts in history"},
		{"an account", with(func(s *sums) { s.accounts++ }), "amounts in accounts"},
		{"a teller", with(func(s *sums) { s.tellers++ }), "amounts in tellers"},
		{"a branch", with(func(s *sums) { s.branches-- }), "amounts in branches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.got.check(wrote, false)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("check = %v, want %q", err, tt.want)
			}
		})
	}
}

// Where there may be more than was told, rows that are missing are still found.
func TestSumsOfMore(t *testing.T) {
	wrote := sums{history: 10, deltas: 7, accounts: 7, tellers: 7, branches: 7}
	for rows, lost := range map[int64]bool{9: true, 10: false, 11: false} {
		if err := (sums{history: rows}).check(wrote, true); (err != nil) != lost {
			t.Errorf("%d of 10 rows: %v", rows, err)
		}
	}
}

// Commits that were lost are found although a part has failed since, and before a user's script runs.
func TestLostBefore(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{})
	c := s.Connect(t)
	if err := load.Populate(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	writing := options{parts: []part{{script: scriptTPCB}}}
	for name, try := range map[string]func(*trial) error{
		"a part has failed": func(tr *trial) error { tr.more = true; return tr.believe(t.Context()) },
		"a script is next":  func(tr *trial) error { return tr.part(t.Context(), part{script: "/a.sql"}) },
	} {
		tr := trial{
			fixture: &fixture{options: writing}, server: &server{sql: c, log: &serverLog{}}, wrote: sums{history: 1},
		}
		if err := try(&tr); err == nil || !strings.Contains(err.Error(), "lost commits") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each script writes into the tables that it has.
func TestWrote(t *testing.T) {
	var got sums
	for _, script := range scripts() {
		got.add(script, 1, 10)
	}
	want := sums{history: 3, deltas: 30, accounts: 30, tellers: 10, branches: 10}
	if got != want {
		t.Errorf("a transaction of each script wrote %+v, want %+v", got, want)
	}
}

func TestCleanlyStopped(t *testing.T) {
	control := func(state uint32) []byte {
		b := binary.NativeEndian.AppendUint64(nil, 7_000_000_000_000_000_001)
		b = binary.NativeEndian.AppendUint32(b, 1300)
		b = binary.NativeEndian.AppendUint32(b, 202209061)
		return binary.NativeEndian.AppendUint32(b, state)
	}
	if id, err := cleanlyStopped(control(1)); err != nil || id != 7_000_000_000_000_000_001 {
		t.Errorf("a cluster that was shut down: %d, %v", id, err)
	}
	for name, b := range map[string][]byte{"in production": control(6), "too short": control(1)[:19], "empty": nil} {
		if _, err := cleanlyStopped(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What a server prints while it stands and falls.
func TestServerLog(t *testing.T) {
	l := &serverLog{}
	w := l.writer()
	for _, part := range []string{
		"LOG:  starting PostgreSQL\nFATAL:  the database system is star", "ting up\n\n",
		strings.Repeat("x", 3*maxLine) + "\n",
	} {
		if n, err := io.WriteString(w, part); err != nil || n != len(part) {
			t.Fatal(n, err)
		}
	}
	if err := l.err(); err != nil {
		t.Errorf("a client that asked too early: %v", err)
	}
	if got := l.last[len(l.last)-1]; len(got) != maxLine {
		t.Errorf("a line of %d bytes was kept, want %d", len(got), maxLine)
	}
	for range 3 * keptLines {
		_, _ = io.WriteString(w, "LOG:  server process (PID 1) was terminated by signal 9: Killed\n")
	}
	if err := l.err(); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("err = %v", err)
	}
	if n := strings.Count(l.text(), "\n"); n > 2*keptLines {
		t.Errorf("%d lines were kept", n)
	}
}

// A checkpoint has its part of each second in which it was under way.
func TestCheckpointing(t *testing.T) {
	at := time.Duration(0)
	l := &serverLog{now: func() time.Duration { return at }}
	w := l.writer()
	for _, one := range []struct {
		at   time.Duration
		line string
	}{
		{500 * time.Millisecond, "LOG:  checkpoint complete: of an earlier one"},
		{1250 * time.Millisecond, "LOG:  checkpoint starting: time"},
		{3500 * time.Millisecond, "LOG:  checkpoint complete: wrote 1 buffers"},
		{4750 * time.Millisecond, "LOG:  checkpoint starting: wal"},
	} {
		at = one.at
		_, _ = io.WriteString(w, one.line+"\n")
	}
	if diff := cmp.Diff([]float64{0.75, 1, 0.5, 0.25, 1}, l.checkpointing(time.Second, 5)); diff != "" {
		t.Errorf("from 1 s (-want +got):\n%s", diff)
	}
	if got := l.checkpointing(0, 1); got != nil {
		t.Errorf("before the first one: %v", got)
	}
}

// Each failure has a sentence of its own.
func TestExplain(t *testing.T) {
	broken := errors.New("EOF")
	for _, tt := range []struct{ line, want string }{
		{"tare-agent: launch: copy /a to /tare-data/pgdata: write /tare-data/pgdata/1: no space left on device", "is full"},
		{"tare-agent: launch: copy /a to /tare-data/pgdata: mkdir: read-only file system", "cannot be written"},
		{`FATAL:  terminating connection due to unexpected postmaster exit`, "first process of the server"},
		{`PANIC:  could not write to file "pg_wal/xlogtemp.1": No space left on device`, "is full"},
		{`LOG:  could not bind IPv4 address "127.0.0.1": Address already in use`, "taken the server's port"},
		{`FATAL:  data directory "/tare-data/pgdata" has wrong ownership`, "another user"},
		{`FATAL:  database files are incompatible with server`, "another major version"},
		{`"root" execution of the PostgreSQL server is not permitted.`, "give root up"},
		{
			`ERROR:  could not resize shared memory segment "/PostgreSQL.1" to 8 bytes: No space left on device`,
			"raise shm",
		},
		{`LOG:  server process (PID 77) was terminated by signal 9: Killed`, "raise memory"},
		{`LOG:  server process (PID 77) was terminated by signal 11: Segmentation fault`, "crashed"},
		{`FATAL:  unrecognized configuration parameter "work_mum"`, "no such setting"},
		{`FATAL:  could not create semaphores: No space left on device`, "no semaphores left"},
	} {
		s := &server{log: &serverLog{}}
		_, _ = io.WriteString(s.log.writer(), tt.line+"\n")
		err := s.explain(broken)
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n%v\nwant %q", tt.line, err, tt.want)
		}
	}
	for code, want := range map[string]string{
		codeDiskFull: "with data", codeTooManyConnections: "end them", codeWrongPassword: "another port",
		codeNoDatabase: "another port", codeOutOfMemory: "raise memory",
	} {
		s := &server{log: &serverLog{}}
		said := &load.ServerError{Severity: "FATAL", Code: code, Message: "no"}
		if err := s.explain(said); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", code, err, want)
		}
	}
	// Where the template is made, the cell's data have no part in it.
	making := &server{log: &serverLog{}, diskFull: "choose another --state"}
	err := making.explain(&load.ServerError{Code: codeDiskFull})
	if !strings.HasSuffix(err.Error(), ": choose another --state") {
		t.Errorf("a full disk: %v", err)
	}
	_, _ = io.WriteString(making.log.writer(), "PANIC: No space left on device\n")
	if err := making.explain(broken); !strings.Contains(err.Error(), "EOF: choose another --state") {
		t.Errorf("a full disk, by the log: %v", err)
	}
	shm := &load.ServerError{Code: codeDiskFull, Message: "could not resize shared memory segment to 9 bytes"}
	if err := (&server{log: &serverLog{}}).explain(shm); !strings.Contains(err.Error(), "raise shm") {
		t.Errorf("shared memory: %v", err)
	}
}

// What a server that was never ready printed last says why, if anything does.
func TestExplainNotReady(t *testing.T) {
	never := fmt.Errorf("the server was %w", supervise.ErrNotReady)
	s := &server{log: &serverLog{}}
	if err := s.explain(never); !errors.Is(err, never) || !strings.Contains(err.Error(), "printed nothing") {
		t.Errorf("of a silent one: %v", err)
	}
	_, _ = io.WriteString(s.log.writer(), "one\ntwo\nthree\nwaiting for data\n")
	err := s.explain(never)
	if !errors.Is(err, never) || !strings.HasSuffix(err.Error(), "printed: two; three; waiting for data") {
		t.Errorf("err = %v", err)
	}
	if err := s.explain(io.EOF); !errors.Is(err, io.EOF) || strings.Contains(err.Error(), "printed") {
		t.Errorf("another error: %v", err)
	}
}

func TestIgnoresSync(t *testing.T) {
	for mounts, want := range map[string]bool{
		"overlay rw,relatime,volatile": true, "overlay rw,fsync=volatile": true, "overlay rw,relatime": false,
		"ext4 rw,volatile": false, "": false,
	} {
		if got := ignoresSync([]string{"ext4 rw", mounts}); got != want {
			t.Errorf("%q: %v, want %v", mounts, got, want)
		}
	}
}

// Cells that were asked for the same must have the same; what differs is named. What other things were asked of is not
// compared, and all the rest is.
func TestCompare(t *testing.T) {
	a := attestedOf(bench.Task{Common: new(bench.Common)})
	for _, tt := range []struct {
		key        string
		asked, got facts
		want       string
	}{
		{"one", nil, facts{"version": "15", "CFLAGS": "-O2"}, ""},
		{"one", nil, facts{"version": "15", "CFLAGS": "-O2"}, ""},
		{"two", nil, facts{"version": "16"}, ""},
		{"one", nil, facts{"version": "15", "CFLAGS": "-O3"}, `CFLAGS: "-O3", but "-O2" of runc`},
		{"one", nil, facts{"version": "15"}, "CFLAGS"},
		{"one", nil, facts{"version": "15", "CFLAGS": "-O2", "jit": "on"}, "jit"},
		{"set", facts{"fsync": "on"}, facts{"fsync": "on", "jit": "off"}, ""},
		{"set", facts{"fsync": "off"}, facts{"fsync": "off", "jit": "off"}, ""},
		{"set", facts{"fsync": "off"}, facts{"fsync": "off", "jit": "on"}, "jit"},
		{"set", facts{"fsync": "on"}, facts{"fsync": "off", "jit": "off"}, "fsync"},
		{"set", facts{"fsync": "on", "work_mem": "8MB"}, facts{"fsync": "on", "jit": "off", "work_mem": "8192"}, ""},
		{"set", facts{"fsync": "on", "work_mem": "8MB"}, facts{"fsync": "on", "jit": "off", "work_mem": "4096"}, "work_mem"},
		{"set", facts{"fsync": "on"}, facts{"fsync": "on", "jit": "off", "work_mem": "8192"}, "but runc has none"},
	} {
		err := a.compare(tt.key, attestedServer{"runc", tt.asked, tt.got})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("asked for %v, %v: %v, want %q", tt.asked, tt.got, err, tt.want)
		}
		if err != nil && !errors.Is(err, bench.ErrMismatch) {
			t.Errorf("%v does not wrap bench.ErrMismatch", err)
		}
	}
}

// User, CPUs, open files and file systems of the data are the same in all cells that named their storage alike.
func TestAttestApplied(t *testing.T) {
	onExt4 := []string{"ext4 rw,relatime"}
	usual := bench.Applied{DataMounts: onExt4, Process: &bench.ProcessFacts{UID: 54321, Files: 4096}}
	done := agent.Prepared{UID: 54321, CPUs: "1"}
	user, everywhere := serverUser()
	if os.Geteuid() != 0 && everywhere && user != fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()) {
		t.Errorf("the server has the user %s", user)
	}
	for name, tt := range map[string]struct {
		spec   bench.Spec
		change func(*agent.Prepared, *bench.Applied)
		want   string
	}{
		"the same": {bench.Spec{}, func(*agent.Prepared, *bench.Applied) {}, ""},
		"another user": {bench.Spec{}, func(d *agent.Prepared, a *bench.Applied) {
			d.UID, a.Process.UID = 999, 999
		}, `user: "999", but "54321"`},
		"a user that the launcher does not know of": {bench.Spec{}, func(_ *agent.Prepared, a *bench.Applied) {
			a.Process.UID = 999
		}, "the launcher became 54321, got 999"},
		"a user of another namespace": {bench.Spec{}, func(_ *agent.Prepared, a *bench.Applied) {
			a.Process.UID, a.Security.UserNS = 154321, true
		}, ""},
		"root":       {bench.Spec{}, func(_ *agent.Prepared, a *bench.Applied) { a.Process.UID = 0 }, "runs as root"},
		"other CPUs": {bench.Spec{}, func(d *agent.Prepared, _ *bench.Applied) { d.CPUs = "0-1" }, "CPUs"},
		"CPUs that were asked for": {
			bench.Spec{Limits: bench.Limits{CPUSet: "0"}}, func(d *agent.Prepared, _ *bench.Applied) { d.CPUs = "0" }, "",
		},
		"other options": {bench.Spec{}, func(_ *agent.Prepared, a *bench.Applied) {
			a.DataMounts = []string{"ext4 rw,relatime,nobarrier"}
		}, `data on: "ext4 nobarrier,relatime", but "ext4 relatime" of native: set storage to bind`},
		"another storage": {bench.Spec{Storage: "tmpfs"}, func(_ *agent.Prepared, a *bench.Applied) {
			a.DataMounts = []string{"tmpfs rw"}
		}, ""},
		"another disk that was asked for": {bench.Spec{Data: "/disk"}, func(_ *agent.Prepared, a *bench.Applied) {
			a.DataMounts = []string{"xfs rw"}
		}, ""},
		"nothing can be seen": {bench.Spec{}, func(_ *agent.Prepared, a *bench.Applied) {
			a.DataMounts, a.Process = nil, nil
		}, ""},
		"other limits": {bench.Spec{}, func(_ *agent.Prepared, a *bench.Applied) { a.Process.Files = 1024 }, "open files"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{task: bench.Task{
				Common: new(bench.Common), Engine: enginetest.NewFake(enginetest.FakeConfig{Name: "native"}),
			}}
			if err := f.attestApplied(done, usual); err != nil {
				t.Fatal(err)
			}
			f.task.Spec = tt.spec
			d, a := done, usual
			process := *usual.Process
			a.Process = &process
			tt.change(&d, &a)
			err := f.attestApplied(d, a)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && !errors.Is(err, bench.ErrMismatch) {
				t.Errorf("%v does not wrap bench.ErrMismatch", err)
			}
		})
	}
}

// Of mount options, those count that say how data are written and synced.
func TestSyncing(t *testing.T) {
	for want, mounts := range map[string][]string{
		"":                            nil,
		"ext4 data=ordered,relatime":  {"ext4 rw,relatime,nosuid,data=ordered"},
		"overlay on ext4 relatime":    {"overlay rw,relatime,index=off,userxattr", "ext4 rw,relatime"},
		"overlay volatile on ext4":    {"overlay rw,relatime,volatile", "ext4 rw"},
		"tmpfs noatime":               {"tmpfs rw,noatime,size=1g,mode=755,inode64"},
		"overlay fsync=volatile,sync": {"overlay rw,fsync=volatile,sync"},
	} {
		if got := syncing(mounts); got != want {
			t.Errorf("%q: %q, want %q", mounts, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	o := options{
		server: map[string]string{
			"fsync": "off", "commit": "on", "full_page_writes": "on", "ssl": "no", "shared_buffers": "1GB",
		},
		set:      []setting{{"jit", "on"}, {"work_mem", "8MB"}},
		settings: steady, parts: []part{{clients: 8, sweep: []int{1, 32}}},
	}
	got := map[string]string{}
	for _, s := range serverSettings(o, 150000, place{addresses: "127.0.0.1", port: 4000}) {
		if _, ok := got[s.name]; ok {
			t.Errorf("%s is there twice", s.name)
		}
		got[s.name] = s.value
	}
	want := map[string]string{
		"fsync": "off", "synchronous_commit": "on", "jit": "on", "work_mem": "8MB", "autovacuum": "off", "ssl": "off",
		"max_connections": fmt.Sprint(32 + spareConnections), "port": "4000", "shared_buffers": "1GB",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %q, want %q", name, got[name], value)
		}
	}
	if _, ok := got["io_method"]; ok {
		t.Error("version 15 has no io_method")
	}
}

// Syncs are timed with the server's own settings, too; before version 14 nobody can.
func TestTimedSyncs(t *testing.T) {
	timed := setting{"track_wal_io_timing", "on"}
	for _, settings := range []string{steady, ofServer} {
		for version, want := range map[int]bool{130000: false, 140000: true, 180000: true} {
			all := serverSettings(options{settings: settings, parts: []part{{clients: 1}}}, version, place{})
			if slices.Contains(all, timed) != want {
				t.Errorf("version %d, settings %s: %v", version, settings, all)
			}
		}
	}
}

// All versions make clusters without checksums, which some must be told.
func TestWithoutChecksums(t *testing.T) {
	for version, want := range map[int][]string{150000: nil, 170000: nil, 180000: {"--no-data-checksums"}} {
		if diff := cmp.Diff(want, withoutChecksums(version)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
}

// inTurns are turns that nobody gives.
type inTurns struct{ bench.Turns }

func (inTurns) On() bool { return true }

// The clients of this host are tare's own program, whether they encrypt or not, and take turns. Those in a container
// are the agent.
func TestClientProgram(t *testing.T) {
	for _, tt := range []struct {
		ssl, reach string
		want       []string
	}{
		{"no", "", []string{"agent", "load", turn.Option, postgrestls.Name, "tls=no"}},
		{"yes", "", []string{"agent", "load", turn.Option, postgrestls.Name, "tls=yes"}},
		{"no", bench.ReachPeer, []string{"load", turn.Option, load.Name}},
	} {
		f := &fixture{options: optionsWith(t, "ssl", tt.ssl), clientSpec: bench.Spec{Reach: tt.reach}}
		f.task.Turns = inTurns{}
		tr := trial{fixture: f}
		argv, err := tr.clientProgram(map[string]string{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, argv[1:]); diff != "" || (argv[0] == agent.Path) != (tt.reach == bench.ReachPeer) {
			t.Errorf("ssl %s, reach %q: %s (-want +got):\n%s", tt.ssl, tt.reach, argv[0], diff)
		}
	}
}

// Each part has keys of its own in each trial, which both kinds of clients are told.
func TestSeeds(t *testing.T) {
	seen := map[uint64]bool{}
	for block := range uint64(3) {
		for nth := range 4 {
			seed := partSeed(block, nth)
			if seen[seed] || seed >= 1<<62 || seed != partSeed(block, nth) {
				t.Errorf("block %d, part %d: %d", block, nth, seed)
			}
			seen[seed] = true
		}
	}
	f := &fixture{template: &template{}, task: bench.Task{Common: new(bench.Common)}}
	tr := trial{fixture: f, server: &server{}}
	p := part{script: scriptSelect, rate: "0", seed: 1<<61 | 7}
	if got := tr.clientOptions(p, tr.server)[0]["seed"]; got != "2305843009213693959" {
		t.Errorf("seed=%s", got)
	}
	if args := tr.toolArguments(toolRun{part: p}); !slices.Contains(args, "--random-seed=7") {
		t.Errorf("pgbench %q", args)
	}
}

// What tare writes must read the same; what a user wrote must only be in force.
func TestAttestSettings(t *testing.T) {
	f := fixture{settings: []setting{{"fsync", "on"}, {"jit", "true"}, {"unix_socket_directories", ""}}}
	f.options.set = []setting{{"jit", "true"}}
	f.options.server = map[string]string{"shared_buffers": "128kB"}
	good := facts{"fsync": "on (command line)", "jit": "on (command line)", "shared_buffers": "16 (command line)"}
	if err := f.attestSettings(good); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{
		"fsync": "off (command line)", "jit": "on (configuration file)", "shared_buffers": "32 (command line)",
	} {
		got := maps.Clone(good)
		got[name] = value
		if err := f.attestSettings(got); !errors.Is(err, bench.ErrMismatch) {
			t.Errorf("%s is %s: error %v", name, value, err)
		}
	}
}

// The clients are the bottleneck if they had no time left and the server had, with any number of them.
func TestLoadBound(t *testing.T) {
	given := func(client float64, server time.Duration) step {
		return step{
			report: &report.Report{Values: map[string]float64{clientCPU: client}, Facts: map[string]string{"span": "1"}},
			server: server,
		}
	}
	idle, busy, unknown := given(0.99, time.Second), given(0.99, 2*time.Second), given(0.99, 0)
	for name, tt := range map[string]struct {
		steps []step
		want  bool
	}{
		"a server that was idle for half of the time": {[]step{idle}, true},
		"a server that had no time left":              {[]step{busy}, false},
		"clients that had time left":                  {[]step{given(0.9, time.Second)}, false},
		"a server of which nothing is known":          {[]step{unknown}, false},
		"one step of a sweep":                         {[]step{given(0.5, time.Second), idle, busy}, true},
		"no step of a sweep":                          {[]step{given(0.5, time.Second), busy}, false},
	} {
		m := workloadtest.NewMeter(t)
		tr := trial{fixture: &fixture{}, m: m}
		tr.cpus.server = []int{1, 2}
		tr.notePart(partResult{steps: tt.steps, report: tt.steps[0].report})
		if slices.Contains(tr.noted, NoteLoadBound) != tt.want {
			t.Errorf("%s: notes %q", name, tr.noted)
		}
	}
}

// The steps of a sweep come in an order that the seed draws, and all of them.
func TestSweepOrder(t *testing.T) {
	p := part{name: partRead, script: scriptSelect, rate: "0", time: "1s", sweep: []int{1, 2, 4, 8}}
	first := map[int]bool{}
	for block := range uint64(40) {
		p.seed = partSeed(block, 1)
		drawn := p.order()
		if !slices.Equal(drawn, p.order()) {
			t.Fatal("the same seed draws another order")
		}
		first[drawn[0]] = true
		if slices.Sort(drawn); !slices.Equal(drawn, p.sweep) {
			t.Fatalf("the steps are %v, want %v", drawn, p.sweep)
		}
	}
	if len(first) != len(p.sweep) {
		t.Errorf("of 40 blocks, sweeps begin only with %v", first)
	}
	f := &fixture{template: &template{}, task: bench.Task{Common: new(bench.Common)}}
	var clients []int
	for _, options := range f.clientOptions(p, &server{}) {
		n, err := strconv.Atoi(options["clients"])
		if err != nil || options["stay"] != "" {
			t.Errorf("options of a step: %v", options)
		}
		clients = append(clients, n)
	}
	if diff := cmp.Diff(p.order(), clients); diff != "" {
		t.Errorf("the loads of a sweep (-want +got):\n%s", diff)
	}
}

// A sweep has what was counted of all steps, the rates and times of each, and the knee, in whatever order they came.
func TestSumUp(t *testing.T) {
	given := func(clients int, rate float64, notes ...string) step {
		return step{clients: clients, report: &report.Report{
			Notes: notes, Distributions: map[string]report.Distribution{"time": "all"},
			Values: map[string]float64{
				Rate: rate, Median: 1 / rate, clientCPU: 0.5, "committed": rate, "delta": -1, failed: 2, failed + ".other": 2,
				"refused": 3, transactions: rate, "time.mean": 1 / rate, "connect.p50": 0.001, "stmt.end.p50": 0.001,
			},
		}}
	}
	got := sumUp([]step{given(8, 400, load.NoteClosedLoop), given(1, 100), given(2, 390, load.NoteFailed)})
	want := map[string]float64{
		"knee": 2, Rate: 400,
		"committed": 890, "delta": -3, failed: 6, failed + ".other": 6, "refused": 9,
		Rate + ".c1": 100, Rate + ".c2": 390, Rate + ".c8": 400, Median + ".c1": 0.01, Median + ".c2": 1.0 / 390,
		Median + ".c8": 1.0 / 400, clientCPU + ".c1": 0.5, clientCPU + ".c2": 0.5, clientCPU + ".c8": 0.5,
	}
	if diff := cmp.Diff(want, got.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if len(got.Distributions) > 0 {
		t.Errorf("the times of one step are those of the sweep: %v", got.Distributions)
	}
	if diff := cmp.Diff([]string{load.NoteClosedLoop, load.NoteFailed}, got.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// What the server counts is divided by all transactions that it had: also those that it refused in the warm-up, which
// have not failed.
func TestPerTransaction(t *testing.T) {
	r := partResult{
		counted: counts{"wal": 1200, "read": 24, "hit": 0}, cpu: 12 * time.Second,
		report: &report.Report{Values: map[string]float64{"committed": 8, "refused": 4, failed: 1}},
	}
	for name, want := range map[string]float64{walEach: 100, readsEach: 2, cpuEach: 1} {
		if got := r.values()[name]; got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := (step{report: r.report}).transactions(); got != 12 {
		t.Errorf("%v transactions of a step, want 12", got)
	}
}

func TestOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		valid func(string) error
		good  []string
		bad   []string
	}{
		"script": {validScript, []string{"insert", "/a/b.sql"}, []string{"", "inserts", "a.sql"}},
		"rate":   {validRate, []string{"0", "100", "70%"}, []string{"", "-1", "0%", "101%", "1.5"}},
		"parts":  {validParts, []string{"read", "read1,write"}, []string{"", "reads", "read,read"}},
		"sweep":  {validSweep, []string{"", "1,64"}, []string{"3", "1,1", "4,2", "x"}},
		"shared_buffers": {
			validBuffers, []string{"128kB", "256MB", "4GB"}, []string{"", "1kB", "256MiB", "-1MB", "9999999GB"},
		},
		"set": {
			validSettings,
			[]string{"", "work_mem=8MB", "a.b=c,jit=on"},
			[]string{
				"work_mem", "port=1", "fsync=off", "synchronous_commit=off", "a=b\nc", "X=1", "jit=on,jit=off", "cluster_name=x",
			},
		},
	} {
		for _, v := range tt.good {
			if err := tt.valid(v); err != nil {
				t.Errorf("%s=%s: %v", name, v, err)
			}
		}
		for _, v := range tt.bad {
			if tt.valid(v) == nil {
				t.Errorf("%s=%s is accepted", name, v)
			}
		}
	}
}

// A trial has the metrics of its parts and of their steps, and those of no part.
func TestMeasures(t *testing.T) {
	params := map[string]string{}
	for _, p := range (workload{}).Params() {
		params[p.Name] = p.Default
	}
	params["parts"], params["sweep"] = "write1,write", "1,4"
	for metric, want := range map[string]bool{
		"write.rate": true, "write.rate.c4": true, "write.rate.c8": false, "read.rate": false,
		"read.rate.c4": false, "write.client_cpu.c4": true, "write.client_cpu.c8": false, "write.time.p50.c4": true,
		"postgres.ready": true, "write.server.cpu": true, "write.server.switches": true, "write.failed.other": true,
		"write.checkpoints": true, "write.knee": true, "write1.time.p50": true, "write1.checkpoint": true,
		// They would be those of the fastest step, or there is no such thing.
		"write.time.p50": false, "write.client_cpu": false, "write.connect.p50": false, "write.stmt.end.p50": false,
		"write.transactions": false, "write.checkpoint": false, "write.memory_load": false,
	} {
		if got := (workload{}).Measures(params, metric); got != want {
			t.Errorf("%s is measured: %t", metric, got)
		}
	}
}

func TestCheckParams(t *testing.T) {
	for name, tt := range map[string]struct {
		given []string
		want  string
	}{
		"the defaults":          {nil, ""},
		"a rate without load":   {[]string{"rate", "100"}, "parts=load"},
		"a script without load": {[]string{"script", scriptTPCB}, "parts=load"},
		"a rate":                {[]string{"rate", "100", "parts", "load"}, ""},
		"a share":               {[]string{"rate", "70%", "parts", "load"}, ""},
		"a share without load":  {[]string{"rate", "70%"}, "parts=load"},
		"a rate in a sweep":     {[]string{"rate", "100", "parts", "load", "sweep", "1,2"}, "a rate fixes it"},
		"a sweep of one client": {[]string{"parts", "read1", "sweep", "1,2"}, "add one of them"},
		"a sweep":               {[]string{"sweep", "1,2"}, ""},
		"pgbench":               {[]string{"tool", "pgbench"}, ""},
		"pgbench in a sweep":    {[]string{"tool", "pgbench", "sweep", "1,2"}, "pgbench does not know sweep"},
		"pgbench at a share":    {[]string{"tool", "pgbench", "rate", "70%", "parts", "load"}, "measure the capacity"},
		"pgbench for an hour":   {[]string{"tool", "pgbench", "time", "1h"}, "a line for each transaction"},
		"pgbench's insert":      {[]string{"tool", "pgbench", "script", "insert", "parts", "load"}, "no script insert"},
		"a file":                {[]string{"tool", "pgbench", "script", "/a.sql", "parts", "load"}, ""},
		"a file without it":     {[]string{"script", "/a.sql", "parts", "load"}, "set tool=pgbench"},
	} {
		params := map[string]string{}
		for _, p := range (workload{}).Params() {
			params[p.Name] = p.Default
			if p.Valid(p.Default) != nil {
				t.Errorf("the default of %s is not valid", p.Name)
			}
		}
		for i := 0; i < len(tt.given); i += 2 {
			params[tt.given[i]] = tt.given[i+1]
		}
		err := (workload{}).CheckParams(params)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// Metrics are declared once, and each part has one that decides.
func TestMetrics(t *testing.T) {
	seen, primary := map[string]bool{}, []string{}
	for _, m := range (workload{}).Metrics() {
		if seen[m.Name] {
			t.Errorf("%s is declared twice", m.Name)
		}
		seen[m.Name] = true
		if m.Role == bench.Primary {
			primary = append(primary, m.Name)
		}
	}
	want := []string{"read1.time.p50", "read.rate", "write1.rate", "write.rate", "load.rate"}
	if diff := cmp.Diff(want, primary); diff != "" {
		t.Errorf("primary (-want +got):\n%s", diff)
	}
}

// A directory that the server's user cannot pass is named.
func TestPassable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("every process has the user of this test")
	}
	open := t.TempDir()
	closed := filepath.Join(open, "closed")
	if err := errors.Join(os.Chmod(open, 0o711), os.Chmod(filepath.Dir(open), 0o711), os.Mkdir(closed, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := passable(filepath.Join(open, "run")); err != nil {
		t.Error(err)
	}
	if err := passable(filepath.Join(closed, "run")); err == nil || !strings.Contains(err.Error(), closed+" is closed") {
		t.Errorf("err = %v", err)
	}
}

// optionsWith are the defaults, but for some.
func optionsWith(t *testing.T, given ...string) options {
	t.Helper()
	params := map[string]string{}
	for _, p := range (workload{}).Params() {
		params[p.Name] = p.Default
	}
	for i := 0; i < len(given); i += 2 {
		params[given[i]] = given[i+1]
	}
	o, err := parseOptions(params)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A trial finds as much WAL ready as it may write, and copies no more.
func TestReadySegments(t *testing.T) {
	for want, given := range map[int][]string{
		0: {"parts", "read1,read"},
		4: {"parts", "read,write1", "write_time", "400ms"}, // 51 MB, if it writes 128 MB/s
		8: nil,
	} {
		if got := optionsWith(t, given...).readySegments(); got != want {
			t.Errorf("%v: %d segments, want %d", given, got, want)
		}
	}
}

// A long trial needs no more room than the WAL can have between two checkpoints.
func TestExpectedWAL(t *testing.T) {
	for want, given := range map[int64][]string{
		0:          {"parts", "read1,read"},
		128 << 20:  {"parts", "write1", "write_time", "2s"},
		96 << 30:   {"parts", "write1", "write_time", "1h"},
		1536 << 20: {"parts", "write1", "write_time", "1h", "settings", "server"},
		3 << 30:    {"parts", "write1", "write_time", "1h", "settings", "server", "set", "max_wal_size=2GB"},
	} {
		if got := optionsWith(t, given...).expectedWAL(); got != want {
			t.Errorf("%v: %d bytes, want %d", given, got, want)
		}
	}
}

// A cluster for which there is no room is not begun.
func TestTemplateRoom(t *testing.T) {
	b := &builder{template: &template{closed: t.TempDir()}}
	first := b.steps(options{scale: 1 << 30})[0] // 16 PiB
	if err := first(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another --state") {
		t.Errorf("err = %v", err)
	}
	if err := b.steps(options{})[0](t.Context()); err != nil {
		t.Error(err)
	}
}

// The template is a cluster that was stopped cleanly, with tables of the scale, and everybody shares it.
func TestTemplate(t *testing.T) {
	images := func(dir string) *image.Library { return image.NewLibrary(dir, image.WithAgent(imagetest.Agent(t))) }
	w := workload{images}
	e := localtest.Native(t)
	task := bench.Task{Client: e, Engine: e, Dir: t.TempDir(), Common: new(bench.Common)}
	if err := errors.Join(os.Chmod(task.Dir, 0o711), os.Chmod(filepath.Dir(task.Dir), 0o711)); err != nil {
		t.Fatal(err)
	}
	p, err := w.programOf(t.Context(), task)
	if err != nil {
		t.Skip(err)
	}
	o := optionsWith(t, "scale", "1")
	made, err := w.templateOf(t.Context(), task, p, o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.templateOf(t.Context(), task, p, o)
	if err != nil || again != made {
		t.Errorf("a second cell has another one: %v", err)
	}
	control, err := os.ReadFile(filepath.Join(made.data(), "global", "pg_control"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := cleanlyStopped(control)
	if err != nil || id != made.id || id == 0 {
		t.Errorf("identifier %d, want %d; %v", id, made.id, err)
	}
	segments, err := filepath.Glob(filepath.Join(made.data(), "pg_wal", "0*"))
	if err != nil || len(segments) <= o.readySegments()/2 {
		t.Errorf("%d WAL segments are ready: %v", len(segments), err)
	}
	if all, err := filepath.Glob(filepath.Join(made.data(), "base", "[0-9]*")); err != nil || len(all) != 1 {
		t.Errorf("the databases are %q, want one: %v", all, err)
	}
	const least, most = 30 << 20, 400 << 20
	if made.bytes < least || made.bytes > most || made.version < 100000 {
		t.Errorf("%d bytes of version %d", made.bytes, made.version)
	}
	closed, err := os.Stat(filepath.Dir(made.dir))
	if err != nil || closed.Mode().Perm()&0o007 != 0 {
		t.Errorf("other users may pass to the password's hash and the key: %v, %v", closed.Mode(), err)
	}
	if stat, ok := closed.Sys().(*syscall.Stat_t); !ok || stat.Uid != uint32(os.Geteuid()) {
		t.Errorf("the directory around the cluster has the owner %d", stat.Uid)
	}
	if err := task.Common.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(task.Dir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "postgres-")
	}) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What an image's programs leave in the cluster leads tare to no other file, whose text, owner or mode it would change.
func TestHostileCluster(t *testing.T) {
	for name, plant := range map[string]func(cluster, victim string) error{
		"a link in place of a file": func(cluster, victim string) error {
			return os.Symlink(victim, filepath.Join(cluster, "pg_hba.conf"))
		},
		"a link among the tables": func(cluster, victim string) error {
			return os.Symlink(victim, filepath.Join(cluster, "global", "1"))
		},
		"a link in place of a directory": func(cluster, victim string) error {
			return os.Symlink(filepath.Dir(victim), filepath.Join(cluster, "base"))
		},
		"a link in place of the cluster": func(cluster, victim string) error {
			return errors.Join(os.RemoveAll(cluster), os.Symlink(filepath.Dir(victim), cluster))
		},
		"a pipe": func(cluster, _ string) error { return syscall.Mkfifo(filepath.Join(cluster, "pg_hba.conf"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			victim := filepath.Join(outside, "pg_hba.conf")
			b := madeCluster(t)
			err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o640),
				os.WriteFile(filepath.Join(outside, "PG_VERSION"), nil, 0o640), plant(b.at, victim))
			if err != nil {
				t.Fatal(err)
			}
			for step, err := range map[string]error{"configure": b.configure(t.Context()), "finish": b.finish()} {
				if err == nil || !strings.Contains(err.Error(), "director") {
					t.Errorf("%s: err = %v", step, err)
				}
			}
			text, err := os.ReadFile(victim)
			if info, err := os.Stat(victim); err != nil || info.Mode() != 0o640 {
				t.Errorf("another file has mode %v: %v", info.Mode(), err)
			}
			if entries, _ := os.ReadDir(outside); err != nil || string(text) != "mine" || len(entries) != 2 {
				t.Errorf("another file is now %q, in a directory with %d: %v", text, len(entries), err)
			}
		})
	}
}

// The password is not written through a link.
func TestHostilePassword(t *testing.T) {
	b := madeCluster(t)
	victim := filepath.Join(t.TempDir(), "victim")
	err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o640), os.Symlink(victim, filepath.Join(b.dir, "password")))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.initialize(t.Context()); !errors.Is(err, os.ErrExist) {
		t.Errorf("err = %v", err)
	}
	text, err := os.ReadFile(victim)
	if info, _ := os.Stat(victim); err != nil || string(text) != "mine" || info.Mode() != 0o640 {
		t.Errorf("another file is now %q with mode %v: %v", text, info.Mode(), err)
	}
}

// The files that tare puts into a cluster take the place of those that are there, and belong to its user.
func TestConfigure(t *testing.T) {
	b := madeCluster(t)
	if err := b.configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.at, "pg_hba.conf"))
	if err != nil || !strings.Contains(string(text), "md5") || strings.Contains(string(text), "trust") {
		t.Errorf("pg_hba.conf is %q: %v", text, err)
	}
	key, err := os.Stat(filepath.Join(b.at, keyFile))
	if err != nil || key.Mode() != 0o600 {
		t.Fatalf("the key has mode %v: %v", key.Mode(), err)
	}
	if stat, ok := key.Sys().(*syscall.Stat_t); !ok || os.Geteuid() == 0 && stat.Uid != 65534 {
		t.Errorf("the key has owner %d", stat.Uid)
	}
	if err := b.finish(); err != nil || b.bytes == 0 {
		t.Errorf("a cluster of %d bytes: %v", b.bytes, err)
	}
}

// madeCluster is a builder with what there is after initdb, as far as tare looks at it.
func madeCluster(t *testing.T) *builder {
	t.Helper()
	b := &builder{template: &template{dir: t.TempDir()}, user: "65534:65534"}
	b.at = b.data()
	control := binary.NativeEndian.AppendUint32(make([]byte, 16), 1) // shut down
	err := errors.Join(os.MkdirAll(filepath.Join(b.at, "global"), 0o700),
		os.WriteFile(filepath.Join(b.at, "global", "pg_control"), control, 0o600),
		os.WriteFile(filepath.Join(b.at, "PG_VERSION"), []byte("17\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
