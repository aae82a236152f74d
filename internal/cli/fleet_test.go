package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
)

// podFiles are the files that pods have of the cluster: those of the order from the beginning, the start signal later.
var podFiles = []string{
	fleet.OrderDir + "/" + fleet.OrderFile, fleet.OrderDir + "/" + fleet.SourceFile, fleet.TokenFile,
	fleet.StartDir + "/" + fleet.StartFile,
}

// playPod runs the pod's side of tare as a process, with the files that are mounted below a directory of its own. Its
// output goes to log.
func playPod(t *testing.T, p *kubetest.Process, log io.Writer) kubetest.Ending {
	root := t.TempDir()
	copyFiles := func() {
		for _, name := range podFiles {
			text, ok := p.File(name)
			to := filepath.Join(root, name)
			if _, err := os.Stat(to); !ok || err == nil {
				continue
			}
			err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to+".new", text, 0o600),
				os.Rename(to+".new", to))
			if err != nil {
				t.Error(err)
			}
		}
	}
	copyFiles()
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("tare", append(p.Pod.Spec.Containers[0].Args, "--root", root)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, p, append(os.Environ(), "HOME="+root,
		"TARE_STATE="+filepath.Join(root, fleet.DataDir))
	for _, name := range []string{fleet.EnvNode, fleet.EnvPass, fleet.EnvAddress, fleet.EnvNetwork} {
		cmd.Env = append(cmd.Env, name+"="+p.Env(name))
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return kubetest.Ending{Code: 127, Message: err.Error()}
	}
	p.Running()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit code says it
		close(ended)
	}()
	told := p.Context().Done()
	for {
		select {
		case <-ended:
			message, _ := os.ReadFile(filepath.Join(root, fleet.DigestFile)) // a pod that failed early leaves none
			return kubetest.Ending{Code: cmd.ProcessState.ExitCode(), Message: string(message)}
		case <-told:
			told = nil
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		case <-time.After(50 * time.Millisecond):
			copyFiles()
		}
	}
}

func startCluster(t *testing.T, nodes ...string) (*kubetest.Server, *testEnv) {
	t.Helper()
	s := kubetest.Start(t, kubetest.Options{
		Run: func(p *kubetest.Process) kubetest.Ending { return playPod(t, p, p) }, Grace: testTimeout,
	}, nodes...)
	p := newTestEnv(t)
	p.env = append(p.env, "KUBECONFIG="+s.Kubeconfig())
	return s, p
}

// fleetArgs are those of a fleet whose rounds are short.
func fleetArgs(command string, more ...string) []string {
	return append([]string{
		"fleet", command, "cpu", "--param", "time=10ms", "--param", "kernels=integer", "--rounds", "3", "--round", "3s",
		"--confirm", "3", "--lead", "3s", "--qps", "1000",
	}, more...)
}

// wantNoObjects wants that nothing of a fleet is left in the cluster.
func wantNoObjects(t *testing.T, s *kubetest.Server) {
	t.Helper()
	for _, kind := range []string{"jobs", "pods", "configmaps", "secrets"} {
		if n := s.Objects(kind); n != 0 {
			t.Errorf("%d %s are left in the cluster", n, kind)
		}
	}
}

// shownFleet is of what 'tare fleet show --json' prints.
type shownFleet struct {
	Fleet string
	Nodes []shownNode
}

type shownNode struct {
	Name, Run, State, Verdict, Reason string
	Rounds                            int
	Findings                          []struct {
		Metric    string
		Low, High float64
	}
}

// shownPath is of it, too: what round trips over a network tell.
type shownPath struct {
	Network    string
	Throughput bool
	Cost       *struct{ Ratio, Low, High float64 } `json:"beside_host"`
	Nodes      []struct{ Name, Verdict string }
	Links      []struct {
		Ends    []string
		Seconds float64 `json:"median_seconds"`
		Rate    float64 `json:"median_bytes_per_second"`
	}
	Losses, Silent []struct{ Reason string }
}

func (p *testEnv) shownFleet(t *testing.T) (out shownFleet) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.must(t, "fleet", "show", "--json").stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A fleet is measured by tare's own pods, stored as ordinary runs, judged, shown, and gone from the cluster.
func TestFleet(t *testing.T) {
	t.Parallel() // it waits more than it measures
	s, p := startCluster(t, "web-1", "web-2", "web-3")
	planned := p.must(t, fleetArgs("plan")...).stdout
	if !strings.Contains(planned, "3 nodes") || s.Objects("jobs") != 0 {
		t.Errorf("the plan of 3 nodes, with %d Jobs:\n%s", s.Objects("jobs"), planned)
	}
	result := p.must(t, fleetArgs("run")...)
	wantNoObjects(t, s)
	shown := p.shownFleet(t)
	if len(shown.Nodes) != 3 {
		t.Fatalf("%d nodes are shown, want 3\n%s", len(shown.Nodes), result.stderr)
	}
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != 3 || n.Run != fleet.RunID(shown.Fleet, 1, n.Name) {
			t.Errorf("node %s: %+v\n%s", n.Name, n, result.stderr)
		}
	}
	for _, r := range p.runs(t) {
		if !slices.Contains(r.Header.Plan.Labels, bench.Label{Key: fleet.LabelFleet, Value: shown.Fleet}) {
			t.Errorf("run %s has the labels %v, want the fleet's", r.Header.ID, r.Header.Plan.Labels)
		}
		if r.End == nil || !r.Header.Imported {
			t.Errorf("run %s is not whole", r.Header.ID)
		}
	}
	for _, args := range [][]string{
		{"fleet", "show", "--all"},
		{"fleet", "show", "--format", "csv"},
		{"fleet", "show", "--format", "html"},
		{"fleet", "status"},
		{"fleet", "gather"},
		{"fleet", "clean"},
		{"show", shown.Nodes[0].Run},
	} {
		p.must(t, args...)
	}
	if got := p.tare(t, "rm", "20", "--yes"); got.code == 0 || len(p.runs(t)) != 3 {
		t.Errorf("what may mean several runs has removed something: exit code %d\n%s", got.code, got.stdout)
	}
	p.must(t, "rm", shown.Fleet[len(shown.Fleet)-4:], "--yes")
	if all := p.runs(t); len(all) != 0 {
		t.Errorf("%d runs are left of the fleet", len(all))
	}
	if got := p.tare(t, "fleet", "show"); got.code != 1 || !strings.Contains(got.stderr, "no fleet is stored") {
		t.Errorf("without a fleet: exit code %d\n%s", got.code, got.stderr)
	}
	p.nothingLeft(t)
}

// A fleet whose client was killed goes on where it was; another client that never heard of it gathers it, too.
func TestFleetGather(t *testing.T) {
	t.Parallel() // it waits more than it measures
	s, p := startCluster(t, "web-1", "web-2")
	begun := p.begin(t, fleetArgs("run")...)
	for deadline := time.Now().Add(testTimeout); s.Objects("jobs") < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no Jobs were made")
		}
	}
	begun.signal(t, syscall.SIGINT)
	interrupted := begun.end(t)
	if interrupted.code != 130 || !strings.Contains(interrupted.stderr, "tare fleet gather") {
		t.Errorf("interrupted: exit code %d\n%s", interrupted.code, interrupted.stderr)
	}
	var all []struct{ ID string }
	other := newTestEnv(t)
	other.env = append(other.env, p.env...)
	status := other.must(t, "fleet", "status", "--json").stdout
	if err := json.Unmarshal([]byte(status), &all); err != nil || len(all) != 1 {
		t.Fatalf("fleets in the cluster: %+v, %v", all, err)
	}
	other.must(t, "fleet", "gather", all[0].ID[len(all[0].ID)-4:], "--qps", "1000", "--keep")
	unread := p.must(t, "fleet", "clean")
	for deadline := time.Now().Add(testTimeout); strings.Contains(unread.stderr, "may still be measured"); {
		if time.Now().After(deadline) {
			t.Fatal("the fleet's rounds are not over")
		}
		time.Sleep(100 * time.Millisecond)
		unread = p.must(t, "fleet", "clean")
	}
	if !strings.Contains(unread.stderr, "tare fleet gather "+all[0].ID) || s.Objects("jobs") != 2 {
		t.Errorf("what is not stored here: %d Jobs are left\n%s", s.Objects("jobs"), unread.stderr)
	}
	elsewhere := kubetest.Start(t, kubetest.Options{}, "web-1", "web-2")
	lost := p.tare(t, "fleet", "gather", "--kubeconfig", elsewhere.Kubeconfig())
	if lost.code != 2 || !strings.Contains(lost.stderr, "was begun on") || !strings.Contains(lost.stderr, "--context") {
		t.Errorf("in another cluster: exit code %d\n%s", lost.code, lost.stderr)
	}
	p.must(t, "fleet", "gather", "--qps", "1000", "--keep")
	if got := p.tare(t, "fleet", "clean", "x"+all[0].ID); got.code == 0 || s.Objects("jobs") == 0 {
		t.Errorf("a fleet that there is not: exit code %d, %d Jobs are left", got.code, s.Objects("jobs"))
	}
	p.must(t, "fleet", "clean", all[0].ID[len(all[0].ID)-4:])
	wantNoObjects(t, s)
	for _, n := range slices.Concat(p.shownFleet(t).Nodes, other.shownFleet(t).Nodes) {
		if n.State != string(fleet.Done) || n.Rounds != 3 {
			t.Errorf("node %s: %+v", n.Name, n)
		}
	}
}

// Round trips over both networks are measured at the end of each round, by a pod in each, and judged; in the long form
// throughput, too.
func TestFleetPaths(t *testing.T) {
	t.Parallel() // it waits more than it measures
	s, p := startCluster(t, "web-1", "web-2", "web-3")
	args, kinds := fleetArgs("run", "--round", "9s", "--network", "host,pod", "--confirm", "0"), 2
	if !testing.Short() {
		args, kinds = append(args, "--round", "15s", "--throughput", "--yes"), 4
	}
	result := p.must(t, args...)
	var shown struct {
		shownFleet
		Paths []shownPath
	}
	if err := json.Unmarshal([]byte(p.must(t, "fleet", "show", "--json").stdout), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Paths) != kinds {
		t.Errorf("the paths are %+v, want %d kinds\n%s", shown.Paths, kinds, result.stderr)
	}
	for i, path := range shown.Paths {
		pod := i%2 == 0
		if (path.Network == "pod") != pod || (path.Cost != nil) != pod || path.Throughput != (i >= 2) {
			t.Errorf("number %d is %+v, want one of each network, with the cost of that of pods", i, path)
		}
		if len(path.Links) != 3 { // what is lost beside other tests is not for this one to say
			t.Errorf("%+v, want three pairs", path)
		}
	}
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != 3 {
			t.Errorf("node %s: %+v\n%s", n.Name, n, result.stderr)
		}
	}
	wantNoObjects(t, s)
}

// On the hosts themselves containers are compared with no container, and what they cost is judged like anything else.
func TestFleetHost(t *testing.T) {
	t.Parallel() // it waits more than it measures
	if len(usable(t, "runc")) == 0 {
		t.Skip("runc is not here")
	}
	s, p := startCluster(t, "web-1", "web-2", "web-3")
	// On a busy machine a pod takes long until it waits for the first round.
	result := p.must(t, fleetArgs("run", "--host", "--engine", "native,runc", "--round", "12s", "--lead", "20s",
		"--confirm", "0")...)
	wantCosts(t, p.shownFleet(t), "runc", 3, result.stderr)
	wantNoObjects(t, s)
	p.nothingLeft(t)
}

// wantCosts wants nodes that have measured so many rounds, and what a container of an engine costs on each of them.
func wantCosts(t *testing.T, shown shownFleet, engine string, rounds int, stderr string) {
	t.Helper()
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != rounds {
			t.Errorf("node %s: %+v\n%s", n.Name, n, stderr)
		}
		costs := 0
		for _, f := range n.Findings {
			if strings.HasSuffix(f.Metric, " "+engine+" beside native") {
				costs++
			}
		}
		if costs == 0 || 2*costs != len(n.Findings) {
			t.Errorf("node %s: %+v, want as many costs as metrics", n.Name, n.Findings)
		}
	}
}

// A blockWatch is a log that tells when two rounds are in it, after the header and the warm-up.
type blockWatch struct {
	io.Writer
	blocks int
	tell   func()
}

func (w *blockWatch) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.blocks += bytes.Count(p, []byte(" block ")); w.blocks >= 4 && w.tell != nil {
		go w.tell()
		w.tell = nil
	}
	return n, err
}

// A node whose pod is evicted has what it had measured; the fleet says that nodes are missing, and which.
func TestFleetEviction(t *testing.T) {
	t.Parallel() // it waits more than it measures
	var s *kubetest.Server
	s = kubetest.Start(t, kubetest.Options{Grace: testTimeout, Run: func(p *kubetest.Process) kubetest.Ending {
		log := io.Writer(p)
		if p.Node == "web-2" {
			log = &blockWatch{Writer: p, tell: func() { s.Evict(p.Node) }}
		}
		return playPod(t, p, log)
	}}, "web-1", "web-2", "web-3")
	p := newTestEnv(t)
	p.env = append(p.env, "KUBECONFIG="+s.Kubeconfig())
	result := p.tare(t, fleetArgs("run", "--rounds", "5", "--confirm", "0")...)
	if result.code != 3 || !strings.Contains(result.stderr, "web-2") {
		t.Errorf("exit code %d, want 3\n%s", result.code, result.stderr)
	}
	for _, n := range p.shownFleet(t).Nodes {
		switch ok := n.State == string(fleet.Done) && n.Rounds == 5; {
		case n.Name == "web-2" && (ok || n.Rounds == 0 || n.Run == ""), n.Name != "web-2" && !ok:
			t.Errorf("node %s: %+v\n%s", n.Name, n, result.stderr)
		}
	}
	wantNoObjects(t, s)
}

// A pod's side that no cluster has started says so.
func TestFleetPodAlone(t *testing.T) {
	p := newTestEnv(t)
	got := p.tare(t, "agent", "pod")
	if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, "no pod of a fleet") {
		t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}
