package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/turn"
)

// small is a run of a known set of trials: six blocks, whatever they show.
func small(engines []string, more ...string) []string {
	return append([]string{
		"run", "lifecycle", "--engine", strings.Join(engines, ","), "--seed", "5",
		"--blocks", "6", "--warmup", "1", "--washout", "off", "--precision", "off",
	}, more...)
}

func TestInterrupted(t *testing.T) {
	t.Parallel() // nothing is measured
	engines := usable(t, "native", "floor")
	whole := newTestEnv(t)
	whole.must(t, small(engines)...)
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup, and then tare ignores it too
		signals = append(signals, syscall.SIGHUP)
	}
	for _, s := range signals {
		t.Run(s.String(), func(t *testing.T) { interrupted(t, s, engines, whole.last(t)) })
	}
}

// The first signal lets the trial in flight finish: resuming the run ends with
// the trials of an undisturbed one.
func interrupted(t *testing.T, signal syscall.Signal, engines []string, whole *bench.Run) {
	p := newTestEnv(t)
	files := filepath.Join(p.dir, "files")
	r := p.begin(t, small(engines, "--output-dir", files)...)
	p.await(t, r, 4)
	r.signal(t, signal)
	result := r.end(t)
	got := p.last(t)
	if result.code != 130 {
		t.Errorf("exit code %d, want 130\n%s", result.code, result.stderr)
	}
	if hint := "tare resume " + got.Header.ID[len("20260314-150926-"):]; !strings.Contains(result.stderr, hint) {
		t.Errorf("it does not say %q:\n%s", hint, result.stderr)
	}
	wantPrefix(t, got, whole)
	if len(got.Samples) < 4 {
		t.Errorf("%d trials are stored of the 4 that were", len(got.Samples))
	}
	p.nothingLeft(t)

	if result := p.tare(t, "resume", "--output-dir", files); result.code != 2 || !strings.Contains(result.stderr, "exists") {
		t.Errorf("resume into the files of the first part: exit code %d\n%s", result.code, result.stderr)
	}
	again := filepath.Join(p.dir, "again")
	result = p.must(t, "resume", "--json", "--output-dir", again)
	if !json.Valid([]byte(result.stdout)) {
		t.Errorf("resume --json: not JSON:\n%s", result.stdout)
	}
	wantOutput(t, again)
	if text, err := os.ReadFile(filepath.Join(again, "results.json")); err != nil || string(text) != result.stdout {
		t.Errorf("results.json is not what --json prints: %v", err)
	}
	wantTrials(t, p.last(t), whole)
	p.nothingLeft(t)
	if result := p.tare(t, "resume", got.Header.ID); result.code != 2 || !strings.Contains(result.stderr, "finished") {
		t.Errorf("resuming it again: exit code %d: %s", result.code, result.stderr)
	}
}

// The second signal cuts a trial short that would not end.
func TestInterruptedTwice(t *testing.T) {
	for _, engine := range usable(t, "native", "floor") {
		t.Run(engine, func(t *testing.T) {
			p := newTestEnv(t)
			file := p.write(t, "hold.yaml",
				"workload: lifecycle\nspec: {argv: [/tare-agent, hold]}\nfactors: {engine: ["+engine+"]}\n")
			r := p.begin(t, "run", file, "--blocks", "6", "--warmup", "0", "--washout", "off")
			p.awaitStart(t, r)
			r.signal(t, syscall.SIGINT)
			r.awaitSaid(t, "interrupt again to abort it") // two at once are one
			r.signal(t, syscall.SIGINT)
			if result := r.end(t); result.code != 130 || !strings.Contains(result.stderr, "aborting the trial") {
				t.Errorf("exit code %d, want 130, and the second signal acknowledged\n%s", result.code, result.stderr)
			}
			got := p.last(t)
			if n := len(got.Samples); n != 1 || got.Samples[0].Outcome != bench.Canceled {
				t.Errorf("samples %+v, want a canceled one", got.Samples)
			}
			p.nothingLeft(t)
		})
	}
}

// A trial during which tare itself was stopped has no times.
func TestStopped(t *testing.T) {
	t.Parallel() // nothing is measured
	p := newTestEnv(t)
	file := p.write(t, "sleep.yaml",
		"workload: lifecycle\nspec: {argv: [/tare-agent, sleep, 1s]}\nfactors: {engine: [native]}\n")
	r := p.begin(t, "run", file, "--blocks", "2", "--warmup", "0", "--washout", "off", "--no-control")
	p.awaitStart(t, r)
	r.signal(t, syscall.SIGSTOP)
	time.Sleep(100 * time.Millisecond)
	r.signal(t, syscall.SIGCONT)
	r.end(t)
	got := p.last(t).Samples
	if len(got) != 2 || got[0].Outcome != bench.Failed || !strings.Contains(got[0].Reason, "tare was stopped") {
		t.Fatalf("samples %+v, want two, the first of them failed because tare was stopped", got)
	}
	if got[1].Outcome != bench.OK {
		t.Errorf("the second trial: %s, %q; want %s", got[1].Outcome, got[1].Reason, bench.OK)
	}
}

// shorter is small with a third of its blocks, for engines that take their time.
func shorter(engines []string) []string { return small(engines, "--blocks", "2") }

// A run that is killed at any instant is a prefix of itself; what it left is
// removed by clean, or by resume, which finishes it.
func TestKilled(t *testing.T) {
	t.Parallel() // nothing is measured
	engines := usable(t, "native", "floor", "crun", "runc", "docker")
	whole := newTestEnv(t)
	whole.must(t, shorter(engines)...)
	undisturbed := whole.last(t)
	seed, rounds := uint64(7), 2
	if !testing.Short() { // any instant, and another one each time
		seed, rounds = rand.Uint64(), 20
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	deaths := 0
	for round := range rounds {
		after := random.IntN(len(undisturbed.Samples) / 2)
		within := time.Duration(random.Int64N(int64(80 * time.Millisecond)))
		if killed(t, engines, undisturbed, after, within, round%2 == 0) {
			deaths++
		}
	}
	if deaths < rounds/2 {
		t.Errorf("%d of %d runs were killed before they were through: too few to show anything", deaths, rounds)
	}
}

// killed reports whether the run was not through when it was killed.
func killed(t *testing.T, engines []string, undisturbed *bench.Run, after int, within time.Duration, clean bool) bool {
	t.Helper()
	p := newTestEnv(t)
	r := p.begin(t, shorter(engines)...)
	p.await(t, r, after)
	time.Sleep(within)
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	r.end(t)
	got := p.last(t)
	if got.End != nil {
		t.Logf("the run was through when it was killed, %v after trial %d", within, after)
		p.cleans(t)
		return false
	}
	wantPrefix(t, got, undisturbed)
	if clean {
		p.cleans(t)
	}
	p.must(t, "resume", got.Header.ID)
	wantTrials(t, p.last(t), undisturbed)
	p.nothingLeft(t)
	return true
}

// The data of a run that is killed are found, wherever they lie.
func TestKilledWithData(t *testing.T) {
	t.Parallel() // nothing is measured
	for _, engine := range usable(t, "native", "floor", "runc", "docker") {
		kinds := []string{"bind"}
		if engine == "docker" {
			kinds = append(kinds, "volume")
		}
		for _, kind := range kinds {
			t.Run(engine+" "+kind, func(t *testing.T) {
				t.Parallel() // as above
				killedWithData(t, engine, kind)
			})
		}
	}
}

func killedWithData(t *testing.T, engine, kind string) {
	p := newTestEnv(t)
	dir := t.TempDir()
	file := p.write(t, "hold.yaml",
		"workload: lifecycle\nspec: {argv: [/tare-agent, hold], storage: "+kind+", data: "+dir+"}\nfactors: {engine: ["+
			engine+"]}\n")
	r := p.begin(t, "run", file, "--blocks", "6", "--warmup", "0", "--washout", "off")
	p.awaitStart(t, r)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if kept, err := os.ReadDir(dir); err != nil || kind == "bind" && len(kept) == 0 {
		t.Errorf("in %s is %v, %v; want the data of a container", dir, kept, err)
	}
	p.cleans(t)
	if kept, err := os.ReadDir(dir); err != nil || len(kept) > 0 {
		t.Errorf("after clean there is in %s: %v, %v", dir, kept, err)
	}
}

// cleans wants clean to list everything, and then to remove it.
func (p *testEnv) cleans(t *testing.T) {
	t.Helper()
	listed := p.settled(t)
	for _, trace := range p.directories(t) {
		if id := strings.TrimPrefix(trace, "directory "); !strings.Contains(listed, id) {
			t.Errorf("clean --dry-run does not list %s:\n%s", trace, listed)
		}
	}
	p.must(t, "clean")
	p.nothingLeft(t)
	if result := p.must(t, "clean"); result.stdout != "" {
		t.Errorf("clean after clean: %s", result.stdout)
	}
}

// settled is what clean --dry-run lists, which listing does not change. What an
// engine had begun when tare died, it ends on its own: the lists may differ
// until then.
func (p *testEnv) settled(t *testing.T) string {
	t.Helper()
	listed := p.must(t, "clean", "--dry-run").stdout
	for range 5 {
		again := p.must(t, "clean", "--dry-run").stdout
		if slices.Equal(lines(listed), lines(again)) {
			return again
		}
		listed = again
	}
	t.Error("no two lists of clean --dry-run are the same")
	return listed
}

func lines(text string) []string {
	l := strings.Split(text, "\n")
	slices.Sort(l)
	return l
}

// Whoever reads the output may go away: the run ends as it should all the same.
func TestReaderGoesAway(t *testing.T) {
	engines := usable(t, "native", "floor")
	p := newTestEnv(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.command(small(engines)...)
	cmd.Stdout, cmd.Stderr = w, w
	if err := errors.Join(r.Close(), cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 128+int(syscall.SIGPIPE) {
		t.Errorf("%v, want the exit code of a program that SIGPIPE ended", err)
	}
	if p.last(t).End == nil {
		t.Error("the run did not finish")
	}
	p.nothingLeft(t)
}

// Nobody is told that whoever read the output went away: "tare list | head" is
// no error.
func TestReaderGoesAwaySilently(t *testing.T) {
	usable(t, "native")
	p := newTestEnv(t)
	p.must(t, small([]string{"native"})...)
	for _, args := range [][]string{
		{"list"}, {"show", "--json"}, {"export", "last"}, {"version", "--json"}, {"help"}, {"plan", "--json"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := p.command(args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		if err := errors.Join(r.Close(), cmd.Start(), w.Close()); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) || stderr.Len() > 0 {
			t.Errorf("tare %s: %v, %q; want the exit code of SIGPIPE and no word", strings.Join(args, " "), err, &stderr)
		}
	}
}

// The way to go on is told no more often than is needed.
func TestInterruptedTells(t *testing.T) {
	usable(t, "native")
	p := newTestEnv(t)
	r := p.begin(t, small([]string{"native"}, "--blocks", "400")...)
	p.await(t, r, 4)
	r.signal(t, syscall.SIGINT)
	result := r.end(t)
	if n := strings.Count(result.stdout+result.stderr, "tare resume"); n < 1 || n > 2 {
		t.Errorf("tare resume is told %d times, want once or twice\n%s%s", n, result.stdout, result.stderr)
	}
	if !strings.Contains(result.stdout, "saved as") {
		t.Errorf("it does not say where it is saved:\n%s", result.stdout)
	}
}

// A run that is killed between two turns leaves processes that wait for their next one. Clean removes them, and
// resume finishes the run.
func TestKilledInTurns(t *testing.T) {
	t.Parallel() // nothing is measured
	engines := []string{"native", "runc", "docker"}
	if !testing.Short() {
		engines = append(engines, "floor", "crun")
	}
	for _, engine := range usable(t, engines...) {
		t.Run(engine, func(t *testing.T) {
			p := newTestEnv(t)
			r, resting := p.beginTurns(t, engine, 500*time.Millisecond)
			if err := r.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			p.cleans(t)
			for _, pid := range resting {
				dir := fmt.Sprintf("/proc/%d", pid)
				if _, err := os.Stat(dir); err == nil && !isZombie(dir) {
					t.Errorf("process %d, which takes turns, is still there", pid)
				}
			}
			p.must(t, "resume", p.last(t).Header.ID)
			for _, s := range p.last(t).Samples {
				if s.Outcome != bench.OK {
					t.Errorf("trial %d after resuming: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
				}
			}
			p.nothingLeft(t)
		})
	}
}

// beginTurns begins a run of two cells whose processes work for a time each, and returns those that take turns. On a
// busy machine the run may end before they are found; then there is another one, twice as long.
func (p *testEnv) beginTurns(t *testing.T, engine string, work time.Duration) (r *process, pids []int) {
	t.Helper()
	r = p.begin(t, "run", "cpu", "--engine", engine+","+engine+",name=other", "--param", "time="+work.String(), "--param",
		"kernels=prime", "--interleave", "auto", "--blocks", "1", "--warmup", "0", "--washout", "off", "--precision", "off")
	p.await(t, r, 0)
	for until := time.Now().Add(testTimeout); time.Now().Before(until); {
		id := p.last(t).Header.ID // at first of the run before, if there is one
		pids = nil
		for _, pid := range slices.Concat(pidsOf(t, id), p.dockerPids(t, id)) {
			file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, turn.FD)) // it may have ended
			if strings.Contains(file, "tare-turns") && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		if len(pids) >= 2 {
			return r, pids
		}
		select {
		case err := <-r.exited:
			if err != nil || work >= testTimeout/4 {
				t.Fatalf("ended before two processes took turns: %v; it said:\n%s", err, &r.stderr)
			}
			return p.beginTurns(t, engine, 2*work)
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%d of 2 processes take turns after %v; it said:\n%s", len(pids), testTimeout, &r.stderr)
	return nil, nil
}

// pidsOf lists the processes that have the ID of a run on them.
func pidsOf(t *testing.T, id string) (pids []int) {
	t.Helper()
	for _, found := range processes([]string{id}) {
		pid, err := strconv.Atoi(strings.TrimPrefix(strings.Fields(found)[1], "/proc/"))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// dockerPids lists the first processes of the containers that a Docker daemon runs for a run.
func (p *testEnv) dockerPids(t *testing.T, id string) (pids []int) {
	t.Helper()
	listed, ok := ask(t, p.docker, "/containers/json")
	if !ok || !strings.Contains(listed, id) {
		return nil
	}
	var containers []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	decode(t, listed, &containers)
	for _, c := range containers {
		var one struct{ State struct{ Pid int } }
		if text, ok := ask(t, p.docker, "/containers/"+c.ID+"/json"); ok && c.Labels["tare.run"] == id {
			decode(t, text, &one)
			pids = append(pids, one.State.Pid)
		}
	}
	return pids
}
