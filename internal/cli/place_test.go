package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// testTimeout is how long a test waits for what must come at once. Machines that
// run tests are busy.
const testTimeout = time.Minute

// A testEnv is where one test's runs work: store, state directory and home.
type testEnv struct {
	dir, store, state string
	wrap              []string // what runs the program; empty = nothing
	program           string   // tare
	docker            string   // socket of the daemon in which nothing may be left
	env               []string // added to the environment
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-cli-") // t.TempDir is not for other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	return &testEnv{
		dir: dir, store: filepath.Join(dir, "tare.db"), state: filepath.Join(dir, "state"),
		program: "tare", docker: "/var/run/docker.sock",
	}
}

// command is tare as a process of its own.
func (p *testEnv) command(args ...string) *exec.Cmd {
	argv := slices.Concat(p.wrap, []string{p.program}, args)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "TARE_STORE="+p.store, "TARE_STATE="+p.state)
	cmd.Env = append(cmd.Env, p.env...)
	return cmd
}

// programResult is how a process ended.
type programResult struct {
	stdout, stderr string
	code           int
}

// tare runs a command to its end.
func (p *testEnv) tare(t *testing.T, args ...string) programResult {
	t.Helper()
	return p.begin(t, args...).end(t)
}

// must runs a command that has to end well.
func (p *testEnv) must(t *testing.T, args ...string) programResult {
	t.Helper()
	s := p.tare(t, args...)
	if s.code != 0 {
		text := s.stderr
		if s.code == 3 { // some trials failed; the whole report has why
			text += p.tare(t, "show", "last", "--all").stdout
		}
		t.Fatalf("tare %s: exit code %d, want 0\n%s", strings.Join(args, " "), s.code, text)
	}
	return s
}

// A process is tare while it runs.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr said
	exited chan error
}

// said is what a process has said so far. It may be read while there comes more.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (p *testEnv) begin(t *testing.T, args ...string) *process {
	t.Helper()
	return begin(t, p.command(args...))
}

func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	r := &process{cmd: cmd, exited: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = &r.stdout, &r.stderr
	// What a killed tare leaves running may hold on to the pipes.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.exited <- cmd.Wait() }()
	return r
}

// end waits for the process.
func (r *process) end(t *testing.T) programResult {
	t.Helper()
	return r.endWithin(t, 2*testTimeout)
}

// endWithin waits for a process that takes long.
func (r *process) endWithin(t *testing.T, limit time.Duration) programResult {
	t.Helper()
	var err error
	select {
	case err = <-r.exited:
	case <-time.After(limit):
		err = errors.Join(r.cmd.Process.Kill(), <-r.exited) // what it said is whole then
		t.Fatalf("%v does not end; killed: %v; it said:\n%s", r.cmd.Args, err, &r.stderr)
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	return programResult{r.stdout.String(), r.stderr.String(), r.cmd.ProcessState.ExitCode()}
}

// awaitSaid waits until the process has said something on its standard error.
func (r *process) awaitSaid(t *testing.T, text string) {
	t.Helper()
	for until := time.Now().Add(testTimeout); !strings.Contains(r.stderr.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it has not said %q after %v, but:\n%s", text, testTimeout, &r.stderr)
		}
	}
}

func (r *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// killNoted kills the process whose number is in a file. It has to run still.
func killNoted(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// recordFile is where the records of a run go, of which nothing may be kept.
func (p *testEnv) recordFile() string { return filepath.Join(p.dir, "run.jsonl") }

// recorded reads the run whose records went there.
func (p *testEnv) recorded(t *testing.T) *bench.Run {
	t.Helper()
	return readRecords(t, p.recordFile())
}

// readRecords reads the first run in a file.
func readRecords(t *testing.T, file string) *bench.Run {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for run, err := range record.Read(f) {
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	t.Fatal("nothing was recorded")
	return nil
}

// runs reads every stored run, oldest first.
func (p *testEnv) runs(t *testing.T) []*bench.Run {
	t.Helper()
	s, err := sqlite.Open(t.Context(), p.store)
	if err != nil {
		t.Fatal(err)
	}
	var all []*bench.Run
	for summary, err := range s.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Open(t.Context(), summary.Header.ID)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// last is the newest stored run.
func (p *testEnv) last(t *testing.T) *bench.Run {
	t.Helper()
	all := p.runs(t)
	if len(all) == 0 {
		t.Fatal("no run is stored")
	}
	return all[len(all)-1]
}

// await waits until the newest run has so many samples.
func (p *testEnv) await(t *testing.T, r *process, samples int) {
	t.Helper()
	until := time.Now().Add(testTimeout)
	for time.Now().Before(until) {
		if _, err := os.Stat(p.store); err == nil {
			if all := p.runs(t); len(all) > 0 && len(all[len(all)-1].Samples) >= samples {
				return
			}
		}
		select {
		case err := <-r.exited:
			t.Fatalf("ended before trial %d: %v\n%s", samples, err, &r.stderr)
		case <-time.After(2 * time.Millisecond):
		}
	}
	t.Fatalf("no trial %d within %v; it said:\n%s", samples, testTimeout, &r.stderr)
}

// usable leaves out the engines that are not here. One that must be and is not
// fails the test.
func usable(t *testing.T, engines ...string) []string {
	t.Helper()
	return slices.DeleteFunc(engines, func(e string) bool {
		ok, err := condition("engine:" + e)
		if err != nil {
			t.Fatal(err)
		}
		return !ok
	})
}

// require ends the test unless the engine is here.
func require(t *testing.T, engine string) {
	t.Helper()
	why, err := missing(engine)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	enginetest.Require(t, engine, err)
}

func trials(r *bench.Run) []bench.Trial {
	var all []bench.Trial
	for _, s := range r.Samples {
		all = append(all, s.Trial)
	}
	return all
}

// wantTrials wants a run to be finished, with the trials of another.
func wantTrials(t *testing.T, got, undisturbed *bench.Run) {
	t.Helper()
	if got.End == nil {
		t.Errorf("run %s is incomplete", got.Header.ID)
	}
	if d := cmp.Diff(trials(undisturbed), trials(got)); d != "" {
		t.Errorf("trials of run %s (-undisturbed +got):\n%s", got.Header.ID, d)
	}
	for _, s := range got.Samples {
		if s.Outcome != bench.OK {
			t.Errorf("trial %d: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
	}
}

// wantPrefix wants a run to be incomplete, with the first trials of another.
func wantPrefix(t *testing.T, got, undisturbed *bench.Run) {
	t.Helper()
	if got.End != nil {
		t.Errorf("run %s is finished: %v", got.Header.ID, got.End.Reason)
	}
	if d := cmp.Diff(trials(undisturbed)[:len(got.Samples)], trials(got), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("trials of run %s (-undisturbed +got):\n%s", got.Header.ID, d)
	}
}

// nothingLeft wants no trace of the place's runs on the machine: no directory,
// mount, cgroup, process, container or image.
func (p *testEnv) nothingLeft(t *testing.T) {
	t.Helper()
	for _, trace := range p.traces(t) {
		t.Errorf("left behind: %s", trace)
	}
}

// awaitNothingLeft is nothingLeft for runs of a tare that was killed or cut off: what it had started ends by itself, a
// moment later.
func (p *testEnv) awaitNothingLeft(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(testTimeout); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if len(p.traces(t)) == 0 {
			return
		}
	}
	p.nothingLeft(t)
}

// traces lists what the place's runs have on the machine now.
func (p *testEnv) traces(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, r := range p.runs(t) {
		ids = append(ids, r.Header.ID)
	}
	found := p.directories(t)
	for _, point := range mountsBelow(t, p.state) {
		found = append(found, "mount "+point)
	}
	found = append(found, groups(t, ids)...)
	found = append(found, processes(ids)...)
	return append(found, p.objects(t, ids)...)
}

func (p *testEnv) directories(t *testing.T) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.state, "runs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, "directory "+e.Name())
	}
	return found
}

// mountsBelow lists the mount points below a directory, in the order in which
// they were mounted.
func mountsBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			found = append(found, fields[4])
		}
	}
	return found
}

// groups lists the cgroups of runs, in every hierarchy.
func groups(t *testing.T, ids []string) (found []string) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // groups come and go
		}
		if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(d.Name(), id) }) {
			found = append(found, "cgroup "+path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// processes lists the processes of runs: by the mark that native ones carry,
// by cgroup, and by what of a run's is in their command line.
func processes(ids []string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		if isZombie(dir) {
			continue // dead, and its parent's to collect: after a crash, not tare's
		}
		for _, name := range []string{"environ", "cgroup", "cmdline"} {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // gone, or somebody else's
			for _, id := range ids {
				if bytes.Contains(text, []byte(id)) {
					found = append(found, "process "+dir+" by "+name+" of run "+id)
				}
			}
		}
	}
	return found
}

func isZombie(dir string) bool {
	stat, _ := os.ReadFile(filepath.Join(dir, "stat")) // gone is as dead as can be
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(state, []byte("Z"))
}

// objects lists what a Docker daemon keeps of runs. Where there is no daemon
// there is nothing.
func (p *testEnv) objects(t *testing.T, ids []string) (found []string) {
	t.Helper()
	for _, list := range []string{"/containers/json?all=1", "/images/json", "/volumes", "/networks"} {
		text, ok := ask(t, p.docker, list)
		for _, id := range ids {
			if ok && strings.Contains(text, id) {
				found = append(found, "docker "+list+" of run "+id)
			}
		}
	}
	return found
}

// ask puts a question to a Docker daemon.
func ask(t *testing.T, socket, what string) (answer string, ok bool) {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 10 * time.Second,
	}
	place, err := url.Parse("http://docker" + what)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do((&http.Request{Method: http.MethodGet, URL: place}).WithContext(t.Context()))
	if err != nil {
		return "", false
	}
	var body bytes.Buffer
	_, err = body.ReadFrom(http.MaxBytesReader(nil, resp.Body, 16<<20))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return body.String(), resp.StatusCode == http.StatusOK
}

// write makes a file in the place, and returns its path.
func (p *testEnv) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitStart waits until a container of the newest run runs, or a Docker daemon
// has one.
func (p *testEnv) awaitStart(t *testing.T, r *process) {
	t.Helper()
	p.await(t, r, 0)
	id := p.last(t).Header.ID
	until := time.Now().Add(testTimeout)
	for time.Now().Before(until) {
		listed, _ := ask(t, p.docker, "/containers/json?all=1") // nothing where there is no daemon
		if len(processes([]string{id})) > 0 || strings.Contains(listed, id) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no container of run %s runs; it said:\n%s", id, &r.stderr)
}
