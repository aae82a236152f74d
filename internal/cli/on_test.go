package cli_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// hosts are machines that an ssh of their own reaches by name: each has a home and a state directory.
// What a file NAME.sh has, the login on that machine does first.
type hosts struct {
	dir   string
	names []string
	ssh   string
}

func newHosts(t *testing.T, names ...string) *hosts {
	t.Helper()
	dir := newTestEnv(t).dir
	h := &hosts{dir: dir, names: names, ssh: filepath.Join(dir, "ssh")}
	text := fmt.Sprintf(`#!/bin/sh
for word; do host=$command; command=$word; done
export HOME=%[1]s/$host TARE_STATE=%[1]s/$host/state SSH_CONNECTION='127.0.0.9 1 127.0.0.1 22'
unset XDG_CACHE_HOME TARE_STORE
echo $$ >%[1]s/$host.pid
[ ! -e %[1]s/$host.sh ] || . %[1]s/$host.sh
exec sh -c "$command"
`, dir)
	if err := os.WriteFile(h.ssh, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// login has a machine do something at each login.
func (h *hosts) login(t *testing.T, name, does string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name+".sh"), []byte(does+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cut ends the connection to a machine.
func (h *hosts) cut(t *testing.T, name string) {
	t.Helper()
	killNoted(t, filepath.Join(h.dir, name+".pid"))
}

func (h *hosts) client(t *testing.T) *testEnv {
	t.Helper()
	p := newTestEnv(t)
	p.env = append(p.env, "TARE_SSH="+h.ssh)
	return p
}

// left lists what is on a machine: its directories of runs, and files of tare.
func (h *hosts) left(name string) (all []string) {
	for _, pattern := range []string{"state/runs/*", ".cache/tare/*", ".cache/tare/*/*"} {
		found, _ := filepath.Glob(filepath.Join(h.dir, name, pattern)) // the pattern is right
		all = append(all, found...)
	}
	return all
}

func (h *hosts) nothingLeft(t *testing.T) {
	t.Helper()
	for _, name := range h.names {
		deadline := time.Now().Add(testTimeout)
		for len(h.left(name)) > 0 && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond) // it cleans up by itself
		}
		for _, file := range h.left(name) {
			t.Errorf("left on %s: %s", name, file)
		}
	}
}

// on is a run of a known set of trials on hosts.
func on(hosts string, more ...string) []string {
	return append(small([]string{"native"}, "--on", hosts), more...)
}

// wantTogether wants finished runs of the same trials, whose blocks began at the same times.
func wantTogether(t *testing.T, runs []*bench.Run, hosts ...string) {
	t.Helper()
	wantTogetherBut(t, runs, -1, hosts...)
}

// wantTogetherBut is wantTogether, but for the block of that number, from 0.
func wantTogetherBut(t *testing.T, runs []*bench.Run, cut int, hosts ...string) {
	t.Helper()
	if len(runs) < 2 || len(runs) > len(hosts) {
		t.Fatalf("%d runs are stored, want one for each of %q", len(runs), hosts)
	}
	for i, r := range runs {
		j := r.Header.Joint
		if j == nil || j.Host != hosts[i] || !slices.Equal(j.Hosts, hosts) || j.ID != runs[0].Header.Joint.ID ||
			r.Header.Imported {
			t.Errorf("run %s: joint %+v, want host %s", r.Header.ID, j, hosts[i])
		}
		wantTrials(t, r, runs[0])
		cells := len(r.Header.Plan.Cells)
		for k, s := range r.Samples {
			apart := s.Began.Sub(runs[0].Samples[k].Began).Abs()
			if apart > 10*time.Second && k%cells == 0 && k/cells != cut {
				t.Errorf("run %s: trial %d began %v from that of the first host", r.Header.ID, k, apart)
			}
		}
	}
}

// byHost reads every stored run, in the order of hosts.
func (p *testEnv) byHost(t *testing.T) []*bench.Run {
	t.Helper()
	all := p.runs(t)
	slices.SortFunc(all, func(a, b *bench.Run) int { return strings.Compare(a.Header.ID, b.Header.ID) })
	return all
}

// All parts of a whole host are measured on two hosts at the same times, with the engine that each has.
func TestOnWholeHosts(t *testing.T) {
	if testing.Short() {
		return // TestBuiltinExperiments has the parts, and the tests below have the hosts
	}
	require(t, "docker")
	h := newHosts(t, "a", "b")
	p := h.client(t)
	files := filepath.Join(p.dir, "files")
	args := append([]string{"run"}, shortHost()...)
	result := p.begin(t, append(args, "--on", "a,b", "--engine", "docker", "--blocks", "2", "--warmup", "0", "--washout",
		"off", "--precision", "off", "--no-control", "--output-dir", files)...).endWithin(t, 4*testTimeout)
	if result.code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", result.code, result.stdout, result.stderr)
	}
	runs := p.byHost(t)
	wantTogether(t, runs, "a", "b")
	for _, r := range runs {
		for _, name := range []string{"idle.memory", "start.total", "throughput.rate", "build.total", "compose.up"} {
			k := slices.IndexFunc(r.Header.Metrics, func(m bench.Metric) bool { return m.Name == name })
			for _, s := range r.Samples {
				if k < 0 || s.Values == nil || math.IsNaN(s.Values[k]) {
					t.Errorf("run %s, block %d: no %s", r.Header.ID, s.Trial.Block, name)
				}
			}
		}
	}
	wantOutput(t, files)
	h.nothingLeft(t)
	p.nothingLeft(t)
}

// wantOutput wants every file of --output-dir in a directory, and something in each.
func wantOutput(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"results.json", "summary.md", "log.txt"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("--output-dir: %s: %v, %v", name, info, err)
		}
	}
}

// Hosts are measured together, and compared block by block; nothing stays on them.
func TestOn(t *testing.T) {
	t.Parallel() // nothing is measured
	h := newHosts(t, "a", "b")
	p := h.client(t)
	files := filepath.Join(p.dir, "files")
	result := p.must(t, on("a,b", "--name", "first", "--output-dir", files)...)
	wantTogether(t, p.byHost(t), "a", "b")
	wantOutput(t, files)
	for _, want := range []string{"at the same times", "how these machines differed"} {
		if !strings.Contains(strings.Join(strings.Fields(result.stdout), " "), want) {
			t.Errorf("the report lacks %q:\n%s", want, result.stdout)
		}
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
	if out := p.must(t, "list").stdout; !strings.Contains(out, "first-1") || !strings.Contains(out, "first-2") {
		t.Errorf("the runs have no names:\n%s", out)
	}
	if again := p.tare(t, on("a,b", "--name", "first")...); again.code != 2 || !strings.Contains(again.stderr, "first-1") {
		t.Errorf("names that earlier runs have: exit code %d\n%s", again.code, again.stderr)
	}
	p.must(t, "compare", "first-1", "first-2", "--json")
	p.must(t, "show", "first-2")
	alone := p.must(t, on("b")...)
	if !strings.Contains(alone.stdout, "against native") && !strings.Contains(alone.stdout, "native") {
		t.Errorf("one host gives no report of its own:\n%s", alone.stdout)
	}
	h.nothingLeft(t)
}

func TestOnRefused(t *testing.T) {
	t.Parallel() // it waits more than it measures
	h := newHosts(t, "a", "b")
	h.login(t, "b", "PATH=/usr/bin:/bin; export PATH; unset DOCKER_HOST; exit 3")
	p := h.client(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{on("a,a"), 2, "named twice"},
		{on("-oProxyCommand=id,a"), 2, "is no host"},
		{on("a", "--remote", "b"), 2, "cannot be combined"},
		{on("a", "--output", "x"), 2, "cannot be combined"},
		{on("a,b"), 1, "b: tare could not be started"},
		{[]string{"run", "lifecycle", "--on", "a", "--engine", "nosuch"}, 2, "nosuch"},
		{
			[]string{"run", "lifecycle", "--on", "a", "--engine", "native,docker,name=d2,host=unix:///nowhere.sock"},
			4, "host a: engine d2: ",
		},
	} {
		result := p.tare(t, test.args...)
		if result.code != test.code || !strings.Contains(result.stderr, test.want) {
			t.Errorf("tare %s: exit code %d, want %d and %q\n%s",
				strings.Join(test.args, " "), result.code, test.code, test.want, result.stderr)
		}
	}
	// What both hosts refuse leaves no log, so that the directory can be named again.
	files := filepath.Join(p.dir, "refused")
	h.login(t, "b", "")
	result := p.tare(t, "run", "density", "--on", "a,b", "--engine", "native", "--image", "host:no-such-program",
		"--output-dir", files)
	if left, _ := filepath.Glob(filepath.Join(files, "*")); result.code == 0 || left != nil ||
		!strings.Contains(result.stderr, "host b") {
		t.Errorf("an image that no host has: exit code %d, left %q\n%s", result.code, left, result.stderr)
	}
	h.login(t, "b", "exec tare agent serve")
	if result := p.tare(t, on("a,b")...); result.code != 1 || !strings.Contains(result.stderr, "only lends engines") {
		t.Errorf("a login that only lends: exit code %d\n%s", result.code, result.stderr)
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
}

// awaitOn waits until every host has so many trials stored here.
func (p *testEnv) awaitOn(t *testing.T, r *process, n, samples int) {
	t.Helper()
	p.await(t, r, samples)
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(2 * time.Millisecond) {
		all := p.runs(t)
		if len(all) == n && !slices.ContainsFunc(all, func(r *bench.Run) bool { return len(r.Samples) < samples }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not all of %d hosts have measured %d trials", n, samples)
		}
	}
}

// A connection that is lost loses nothing: the other host stops, for it has nothing to be compared with;
// resume fetches what was measured, and both go on together.
func TestOnHostLost(t *testing.T) {
	t.Parallel() // it waits more than it measures
	h := newHosts(t, "a", "b")
	p := h.client(t)
	args := on("a,b", "--blocks", "120")
	r := p.begin(t, args...)
	p.awaitOn(t, r, 2, 10)
	h.login(t, "b", "echo 'ssh: connect to host b port 22: No route to host' >&2; exit 255")
	h.cut(t, "b")
	result := r.end(t)
	if result.code != 1 || !strings.Contains(result.stderr, "host b is gone") ||
		!strings.Contains(result.stderr, "tare resume") {
		t.Errorf("exit code %d, want 1, the host and what to do\n%s", result.code, result.stderr)
	}
	p.awaitNothingLeft(t)
	before := p.byHost(t)
	if result := p.tare(t, "resume"); result.code != 1 || !strings.Contains(result.stderr, "No route to host") {
		t.Errorf("resume while the host is away: exit code %d\n%s", result.code, result.stderr)
	}
	if err := os.Remove(filepath.Join(h.dir, "b.sh")); err != nil {
		t.Fatal(err)
	}
	p.must(t, "resume")
	after := p.byHost(t)
	wantTogether(t, after, "a", "b")
	for i, r := range before {
		if n := len(r.Samples); n < 10 || r.End != nil || after[i].Samples[n-1].Began != r.Samples[n-1].Began {
			t.Errorf("run %s: its first %d trials are not those from before", r.Header.ID, n)
		}
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
}

// With three hosts, the others go on without one that is lost; what that one has measured is fetched.
func TestOnOthersGoOn(t *testing.T) {
	t.Parallel() // it waits more than it measures
	h := newHosts(t, "a", "b", "c")
	p := h.client(t)
	r := p.begin(t, on("a,b,c", "--blocks", "120")...)
	p.awaitOn(t, r, 3, 8)
	h.cut(t, "c")
	result := r.end(t)
	if result.code != 1 || !strings.Contains(result.stderr, "host c is gone") {
		t.Errorf("exit code %d\n%s", result.code, result.stderr)
	}
	all := p.byHost(t)
	wantTogether(t, all[:2], "a", "b", "c")
	if all[2].End != nil {
		t.Error("the run of the lost host is finished")
	}
	again := p.tare(t, "resume")
	if again.code != 1 || !strings.Contains(again.stderr, "does not go on") {
		t.Errorf("resume: exit code %d\n%s", again.code, again.stderr)
	}
	if got := p.byHost(t)[2]; len(got.Samples) < len(all[2].Samples) {
		t.Errorf("%d trials of the lost host are stored, %d before", len(got.Samples), len(all[2].Samples))
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
}

// A client that is killed at any instant loses nothing, and leaves nothing running.
func TestOnClientKilled(t *testing.T) {
	t.Parallel()                // nothing is measured
	instants := []int{1, 7, 12} // trials
	if testing.Short() {
		instants = instants[1:2]
	}
	for _, samples := range instants {
		t.Run(strconv.Itoa(samples), func(t *testing.T) {
			t.Parallel() // as above
			h := newHosts(t, "a", "b")
			p := h.client(t)
			r := p.begin(t, on("a,b", "--blocks", "60")...)
			p.awaitOn(t, r, 2, samples)
			r.signal(t, syscall.SIGKILL)
			r.end(t)
			p.must(t, "clean")
			p.must(t, "resume")
			wantTogether(t, p.byHost(t), "a", "b")
			h.nothingLeft(t)
			p.nothingLeft(t)
		})
	}
}

// An interrupt ends the runs after their trials in flight; resume goes on.
func TestOnInterrupted(t *testing.T) {
	t.Parallel() // it waits more than it measures
	h := newHosts(t, "a", "b")
	p := h.client(t)
	r := p.begin(t, on("a,b", "--blocks", "120")...)
	p.awaitOn(t, r, 2, 6)
	r.signal(t, syscall.SIGINT)
	result := r.end(t)
	if result.code != 130 || !strings.Contains(result.stderr, "tare resume") {
		t.Errorf("exit code %d, want 130 and what to do\n%s", result.code, result.stderr)
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
	files := filepath.Join(p.dir, "files")
	p.must(t, "resume", "--output-dir", files)
	wantTogether(t, p.byHost(t), "a", "b")
	wantOutput(t, files)
	h.nothingLeft(t)
}

// Real sshds in network namespaces, with real keys and known hosts.
func TestOnRealSSH(t *testing.T) {
	t.Parallel() // it asserts no time
	sshd, err := findSSHD()
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("two sshds take root and OpenSSH's server: %v", err)
	}
	h := startSSHDs(t, sshd, "a", "b")
	p := newTestEnv(t)
	p.env = append(p.env, "TARE_SSH="+h.ssh)
	if result := p.tare(t, "doctor", "--remote", "a"); result.code != 1 ||
		!strings.Contains(result.stderr, "Host key verification failed") {
		t.Errorf("an unknown host key: exit code %d\n%s", result.code, result.stderr)
	}
	h.trust(t)
	p.must(t, "doctor", "--remote", "a")
	p.must(t, on("a,b")...)
	wantTogether(t, p.byHost(t), "a", "b")
	p.must(t, "run", "net-rtt", "--remote", "a", "--engine", "native", "--network", "native", "--blocks", "2",
		"--warmup", "0", "--washout", "off", "--pings", "1000", "--no-control")
	last := p.last(t)
	for _, s := range last.Samples {
		if s.Outcome != bench.OK {
			t.Errorf("trial %d: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
	}
	if at := last.Header.Engines[0].Away.Address; at != h.address("a") {
		t.Errorf("the machine was reached at %s, want %s", at, h.address("a"))
	}
	h.refuse(t)
	if result := p.tare(t, "doctor", "--remote", "a"); result.code != 1 ||
		!strings.Contains(result.stderr, "Permission denied") ||
		!strings.Contains(result.stderr, "a key that needs no password") {
		t.Errorf("a key that is not accepted: exit code %d\n%s", result.code, result.stderr)
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
}

// A cable that is cut without a word: both sides notice, and the host keeps what it has measured. Once the cable is
// mended, resume fetches that, and both hosts go on.
func TestOnLinkCut(t *testing.T) {
	t.Parallel() // it waits more than it measures
	if testing.Short() {
		return // TestOnHostLost cuts a connection, and the package remote/peer has silence
	}
	sshd, err := findSSHD()
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("two sshds take root and OpenSSH's server: %v", err)
	}
	h := startSSHDs(t, sshd, "a", "b")
	h.trust(t)
	p := newTestEnv(t)
	p.env = append(p.env, "TARE_SSH="+h.ssh)
	r := p.begin(t, on("a,b", "--blocks", "120")...)
	p.awaitOn(t, r, 2, 10)
	h.link(t, "b", "down")
	result := r.end(t)
	if result.code != 1 || !strings.Contains(result.stderr, "host b is gone") ||
		!strings.Contains(result.stderr, "tare resume") {
		t.Errorf("exit code %d, want 1, the host and what to do\n%s", result.code, result.stderr)
	}
	kept := h.kept(t, "b")
	stored := p.byHost(t)
	if n := len(stored[1].Samples); len(kept.Samples) < n || n < 10 {
		t.Errorf("the host has kept %d trials, of which %d are stored", len(kept.Samples), n)
	}
	least, most := len(stored[0].Samples), len(kept.Samples)
	least, most = min(least, most), max(least, most)
	cut, cells := -1, len(kept.Header.Plan.Cells)
	if least%cells == 0 && most > least { // one host has measured in a block that the other one had not begun
		cut = least / cells
	}
	h.link(t, "b", "up")
	p.must(t, "resume")
	after := p.byHost(t)
	wantTogetherBut(t, after, cut, "a", "b")
	for i, s := range kept.Samples {
		if !after[1].Samples[i].Began.Equal(s.Began) {
			t.Errorf("trial %d is not the one that the host had measured before", i)
		}
	}
	h.nothingLeft(t)
	p.nothingLeft(t)
}

// kept reads the records that a machine keeps, once tare has ended there.
func (h *hosts) kept(t *testing.T, name string) *bench.Run {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		left := h.left(name)
		runs := slices.ContainsFunc(left, func(file string) bool {
			return filepath.Base(file) == "tare" || strings.Contains(file, "/state/runs/")
		})
		i := slices.IndexFunc(left, func(file string) bool { return filepath.Base(file) == "run.jsonl" })
		if i >= 0 && !runs {
			return readRecords(t, left[i])
		}
		if time.Now().After(deadline) {
			t.Fatalf("tare has not ended on %s, or has kept nothing: %q", name, left)
		}
	}
}

func findSSHD() (string, error) {
	for _, path := range []string{"/usr/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no sshd here")
}

// Whenever a connection is cut, what was measured is fetched, and in the end all is there.
func TestOnCutAnywhere(t *testing.T) {
	t.Parallel() // nothing is measured
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	times := 2
	if !testing.Short() {
		times = 20
	}
	for range times {
		after := time.Duration(random.Int64N(int64(800 * time.Millisecond)))
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel() // as above
			h := newHosts(t, "a", "b")
			p := h.client(t)
			r := p.begin(t, on("a,b", "--blocks", "100")...)
			for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				if text, err := os.ReadFile(filepath.Join(h.dir, "b.pid")); err == nil && len(text) > 0 {
					break
				}
			}
			time.Sleep(after)
			h.cut(t, "b")
			result := r.end(t)
			p.awaitNothingLeft(t)
			before := p.byHost(t)
			if result.code == 0 {
				t.Fatalf("the cut is not noticed:\n%s", result.stderr)
			}
			if len(before) < 2 { // it was cut before both had begun
				if !strings.Contains(result.stderr, "b") {
					t.Errorf("exit code %d, and nothing says where:\n%s", result.code, result.stderr)
				}
				return
			}
			p.must(t, "resume")
			wantTogether(t, p.byHost(t), "a", "b")
			h.nothingLeft(t)
			p.nothingLeft(t)
		})
	}
}
