package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
	pgload "github.com/tare-bench/tare/internal/load/postgres"
)

const pgbenchOutput = `pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 1
query mode: prepared
number of clients: 2
number of threads: 2
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 5
number of failed transactions: 3 (37.500%)
latency average = 1.000 ms
initial connection time = 2.000 ms
tps = 2.000000 (without initial connection time)
`

// What ended after the warm-up and within the time counts, of all threads.
func TestToolReport(t *testing.T) {
	r := toolRun{
		part:   part{name: partLoad, script: scriptSelect, time: "2s", rate: "0"},
		warmup: 500 * time.Millisecond, prefix: filepath.Join(t.TempDir(), "log"),
	}
	for name, lines := range map[string][]string{
		".7":   {"0 1 900 0 1700000000 000000", "0 2 1000 0 1700000000 600000", "0 3 3000 0 1700000002 500000"},
		".7.1": {"1 1 900 0 1700000000 400000", "1 2 2000 0 1700000002 499999", "1 3 failed 0 1700000001 0"},
	} {
		if err := os.WriteFile(r.prefix+name, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.read([]byte(pgbenchOutput))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{Rate: 1, transactions: 2, "committed": 5, "refused": 3, failed: 1} {
		if got.Values[name] != want {
			t.Errorf("%s = %v, want %v", name, got.Values[name], want)
		}
	}
	if longest := got.Values["time.max"]; longest < 0.00199 || longest > 0.00201 {
		t.Errorf("the longest took %v s, want 2 ms", longest)
	}
	if diff := cmp.Diff([]string{pgload.NoteFailed, pgload.NoteClosedLoop}, got.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// A script or pgbench that changes during a run fails the trial; another script is another one.
func TestAttestTool(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tool, script := write("pgbench", "1"), write("a.sql", "SELECT 1;")
	f := &fixture{toolPath: tool, task: bench.Task{
		Common: new(bench.Common), Engine: enginetest.NewFake(enginetest.FakeConfig{Name: "native"}),
	}}
	attest := func(script string) (facts, error) {
		one := &trial{fixture: f, applied: bench.Applied{Facts: facts{}}}
		err := one.attestTool(part{script: script})
		return one.applied.Facts, err
	}
	got, err := attest(script)
	if err != nil || got[toolName] == got["script"] || !strings.HasPrefix(got["script"], "sha256:") {
		t.Errorf("the facts are %v: %v", got, err)
	}
	for _, other := range []string{script, write("b.sql", "SELECT 2;"), scriptTPCB} {
		if _, err := attest(other); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
	write("a.sql", "SELECT 3;")
	wantChanged := func(script, changed string) {
		t.Helper()
		_, err := attest(script)
		if !errors.Is(err, bench.ErrMismatch) || !strings.Contains(err.Error(), changed+" has changed") {
			t.Errorf("%s is another file: %v", changed, err)
		}
	}
	wantChanged(script, script)
	write("pgbench", "2")
	wantChanged(scriptTPCB, tool)
}

// pgbench still runs when the measured time ends, which begins with its first transaction.
func TestToolSeconds(t *testing.T) {
	for _, tt := range []struct {
		warmup time.Duration
		time   string
		want   int
	}{{0, "1s", 2}, {250 * time.Millisecond, "1750ms", 3}, {250 * time.Millisecond, "1s", 3}} {
		r := toolRun{part: part{time: tt.time}, warmup: tt.warmup}
		if got := r.seconds(); got != tt.want {
			t.Errorf("after %v for %s: %d s, want %d", tt.warmup, tt.time, got, tt.want)
		}
	}
}

// The number of transactions that pgbench has due varies by chance, and that alone misses no rate.
func TestToolRateMissed(t *testing.T) {
	for n, want := range map[int64]bool{85: false, 60: true} {
		l := pgbench.NewLog()
		l.Transactions = n
		l.Times.AddMany(time.Millisecond, n)
		got, err := toolRun{part: part{name: partLoad, time: "1s", rate: "100"}}.report(l, &pgbench.Output{Transactions: n})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(got.Notes, pgload.NoteRateMissed) != want {
			t.Errorf("%d of 100 due: notes %v", n, got.Notes)
		}
	}
}

// A run of pgbench that did not go to its end is a failure.
func TestToolFailures(t *testing.T) {
	r := toolRun{part: part{time: "1s", rate: "0"}, prefix: filepath.Join(t.TempDir(), "log")}
	for output, want := range map[string]string{
		"":          "no result",
		"tps = ???": "no result",
		pgbenchOutput[:strings.Index(pgbenchOutput, "tps = ")]:                                 "the output ends before the rate",
		pgbenchOutput + "pgbench: error: Run was aborted; the above results are incomplete.\n": "aborted",
		pgbenchOutput: "no transaction ended well",
	} {
		if _, err := r.read([]byte(output)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", output, err, want)
		}
	}
	if err := os.WriteFile(r.prefix+".1", []byte("0 1 900 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.read([]byte(pgbenchOutput)); err == nil || !strings.Contains(err.Error(), "its log: line 1") {
		t.Errorf("a damaged log: %v", err)
	}
}

func TestCheckScript(t *testing.T) {
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good"), filepath.Join(dir, "large")
	for name, size := range map[string]int{good: 10, large: maxScript + 1} {
		if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, ok := range map[string]bool{scriptTPCB: true, good: true, large: false, dir: false, good + "-not": false} {
		if err := checkScript(path); (err == nil) != ok {
			t.Errorf("%s: %v", path, fmt.Sprint(err))
		}
	}
}
