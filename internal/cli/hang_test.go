package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// runtime makes a runtime that misbehaves as its name says; see
// testdata/runtime.
func (p *testEnv) runtime(t *testing.T, name string) string {
	t.Helper()
	program, err := faultyRuntime()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// faultyRuntime is testdata/runtime, built once for all names.
var faultyRuntime = sync.OnceValues(func() ([]byte, error) { return buildProgram("runtime") })

// buildProgram builds a program of testdata.
func buildProgram(name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "tare-"+name+"-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // at worst a leftover in the temporary directory
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build a program of testdata: %w\n%s", err, out)
	}
	return os.ReadFile(path)
}

// shortTimeouts is a run in which an operation may take three seconds, because beside other tests what does end needs a
// while too, and native goes on when the other engine does not.
func shortTimeouts(engine string) []string {
	return []string{
		"run", "lifecycle", "--engine", "native," + engine, "--blocks", "6", "--warmup", "0",
		"--washout", "off", "--precision", "off", "--no-control", "--operation-timeout", "3s",
	}
}

// A runtime that hangs costs its own cell, and only three times the limit.
// Where it hangs in delete, tare removes the container itself.
func TestRuntimeHangs(t *testing.T) {
	t.Parallel() // most of the time it waits
	require(t, "runc")
	for command, operation := range map[string]string{"create": "create", "start": "start", "delete": "remove"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel() // as above
			p := newTestEnv(t)
			result := p.tare(t, shortTimeouts("oci,name=mine,binary="+p.runtime(t, "runc."+command+".hang"))...)
			p.wantGivenUp(t, result, operation)
		})
	}
}

// A process that never exits, and one that prints without end.
func TestContainerDoesNotEnd(t *testing.T) {
	t.Parallel() // most of the time it waits
	program := releaseBinary(t)
	for _, engine := range usable(t, "native", "floor", "runc", "docker") {
		tasks := []string{"hold", "stubborn", "spew"}
		switch {
		case engine == "docker":
			tasks = tasks[1:]
		case testing.Short() && engine != "runc": // what prints takes a CPU; a pipe of tare's is like another
			tasks = tasks[:2]
		}
		for _, task := range tasks {
			t.Run(engine+"/"+task, func(t *testing.T) {
				t.Parallel() // as above
				doesNotEnd(t, program, engine, task)
			})
		}
	}
}

func doesNotEnd(t *testing.T, program, engine, task string) {
	p := newTestEnv(t)
	p.program = program
	file := p.write(t, task+".yaml", fmt.Sprintf(`
workload: lifecycle
cells:
  - {name: native, engine: native}
  - {name: mine, engine: %s, argv: [/tare-agent, %s]}
baseline: native
`, engine, task))
	args := shortTimeouts(engine)
	args[1] = file
	args = append(args[:2], args[4:]...) // the cells name their engines
	r := p.begin(t, args...)
	most := peakMemory(r)
	p.wantGivenUp(t, r.end(t), "wait")
	const limitMiB = 25
	if got := <-most >> 20; got == 0 || got > limitMiB {
		t.Errorf("tare used %d MiB beside its program, want %d at most, and some", got, limitMiB)
	}
}

// releaseBinary is tare as users have it: the race detector takes more memory than
// tare itself.
func releaseBinary(t *testing.T) string {
	t.Helper()
	if !raceDetector {
		return "tare"
	}
	path := filepath.Join(t.TempDir(), "tare")
	if err := buildTare(path, false); err != nil {
		t.Fatal(err)
	}
	return path
}

// peakMemory looks, a hundred times in a second, how much memory a process has resident, in bytes, without the pages of
// its program: how many of those the kernel maps depends on what is in its cache, not on what the process does.
func peakMemory(r *process) <-chan int64 {
	out := make(chan int64, 1)
	status := fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid)
	go func() {
		var most int64
		for {
			text, err := os.ReadFile(status)
			now, ok := field(text, "RssAnon:")
			if err != nil || !ok { // it is gone
				out <- most
				return
			}
			most = max(most, now<<10)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return out
}

func field(text []byte, name string) (int64, bool) {
	_, rest, ok := bytes.Cut(text, []byte(name))
	words := strings.Fields(string(rest))
	if !ok || len(words) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	return n, err == nil
}

// wantGivenUp wants a run whose second cell was given up after it had timed
// out in an operation three times, and whose first cell went on.
func (p *testEnv) wantGivenUp(t *testing.T, s programResult, operation string) {
	t.Helper()
	if s.code != 3 {
		t.Errorf("exit code %d, want 3\n%s", s.code, s.stderr)
	}
	count := map[string]int{}
	got := p.last(t)
	for _, sample := range got.Samples {
		name := got.Header.Plan.Cells[sample.Trial.Cell].Name
		count[name+" "+string(sample.Outcome)]++
		if sample.Outcome == bench.TimedOut && sample.Operation != operation {
			t.Errorf("trial %d timed out in %q, want %q: %s", sample.Trial.Seq, sample.Operation, operation, sample.Reason)
		}
	}
	for what, n := range map[string]int{"native ok": 6, "mine timed-out": 3, "mine skipped": 3} {
		if count[what] != n {
			t.Errorf("%d × %s, want %d: %v\n%s", count[what], what, n, count, s.stderr)
		}
	}
	if got.End == nil || got.End.Reason != bench.StopBlocks {
		t.Errorf("the run ended with %+v, want %s", got.End, bench.StopBlocks)
	}
	p.nothingLeft(t)
}
