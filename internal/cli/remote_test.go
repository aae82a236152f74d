package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// An agentServer is 'tare agent serve' while it runs, in a place of its own.
type agentServer struct {
	*testEnv
	cmd            *exec.Cmd
	address, token string
	exited         chan error

	mu  sync.Mutex
	log bytes.Buffer
}

func (l *agentServer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *agentServer) logText() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// lend begins to serve on loopback; the end of the test ends it.
func lend(t *testing.T, p *testEnv, args ...string) *agentServer {
	t.Helper()
	l := &agentServer{testEnv: p, exited: make(chan error, 1)}
	l.cmd = p.command(append([]string{"agent", "serve", "--listen=127.0.0.1:0"}, args...)...)
	l.cmd.Stderr = l
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for (l.address == "" || !strings.Contains(lines.Text(), "--remote")) && lines.Scan() {
		if m := regexp.MustCompile(` on (\S+); press`).FindStringSubmatch(lines.Text()); m != nil {
			l.address = m[1]
		}
		if m := regexp.MustCompile(`export TARE_TOKEN=(\w+)$`).FindStringSubmatch(lines.Text()); m != nil {
			l.token = m[1]
		}
	}
	go func() { l.exited <- l.cmd.Wait() }()
	t.Cleanup(func() { l.end(t, syscall.SIGINT) })
	if l.address == "" {
		t.Fatalf("the server does not say where it listens:\n%s", l.logText())
	}
	return l
}

// end ends the server, if nobody has yet.
func (l *agentServer) end(t *testing.T, how syscall.Signal) {
	t.Helper()
	if l.cmd == nil {
		return
	}
	_ = l.cmd.Process.Signal(how) // it may have ended
	select {
	case err := <-l.exited:
		if err != nil && how != syscall.SIGKILL {
			t.Errorf("the server ends with %v:\n%s", err, l.logText())
		}
	case <-time.After(testTimeout):
		_ = l.cmd.Process.Kill() // the test has failed already
		t.Errorf("the server does not end:\n%s", l.logText())
	}
	l.cmd = nil
}

// client is a place that has the server's token.
func (l *agentServer) client(t *testing.T) *testEnv {
	t.Helper()
	p := newTestEnv(t)
	p.env = append(p.env, "TARE_TOKEN="+l.token)
	return p
}

// awaitLog waits for the server to say something.
func (l *agentServer) awaitLog(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !strings.Contains(l.logText(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not say %q:\n%s", text, l.logText())
		}
	}
}

// session is the ID of the newest session.
func (l *agentServer) session(t *testing.T) string {
	t.Helper()
	all := regexp.MustCompile(`session (\S+): `).FindAllStringSubmatch(l.logText(), -1)
	if len(all) == 0 {
		t.Fatalf("no session:\n%s", l.logText())
	}
	return all[len(all)-1][1]
}

// asked is a run of round trips to plain processes of the server's machine.
func (l *agentServer) asked(more ...string) []string { return l.askedOf("native", "native", more...) }

// askedOf is one of round trips to others as well.
func (l *agentServer) askedOf(engines, networks string, more ...string) []string {
	return append([]string{
		"run", "net-rtt", "--remote", l.address, "--engine", engines, "--network", networks,
		"--blocks", "6", "--washout", "off", "--precision", "off", "--pings", "1000",
	}, more...)
}

// What the machine of the server does is measured from here, and the run says
// where that was. Nobody ever sees the token but who started the server.
func TestRemoteRun(t *testing.T) {
	l := lend(t, newTestEnv(t))
	p := l.client(t)
	outputs := []programResult{
		p.must(t, l.asked()...), p.must(t, "show"), p.must(t, "show", "--json"), p.must(t, "export", "last"),
		p.must(t, "doctor", "--remote", l.address), p.must(t, "doctor", "--remote", l.address, "--json"),
		p.must(t, "plan", "net-rtt", "--remote", l.address, "--engine", "native"),
	}
	run := p.last(t)
	for _, s := range run.Samples {
		if s.Outcome != bench.OK {
			t.Errorf("trial %d: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
		if want := []string{"network"}; !slices.Equal(s.Applied.Path, want) {
			t.Errorf("path %q, want %q", s.Applied.Path, want)
		}
	}
	i := slices.IndexFunc(run.Header.Engines, func(e bench.EngineInfo) bool { return e.Name == "native" })
	if e := run.Header.Engines[i]; e.Driver != "remote" || e.Away == nil || e.Away.Address != "127.0.0.1" ||
		e.Away.Host.Kernel == "" || e.Away.RoundTrip <= 0 {
		t.Errorf("the run says of the engine %+v, want the machine that it is on", e)
	}
	all := p.must(t, "show", "--all").stdout
	for _, text := range []string{outputs[0].stdout, all} {
		if !strings.Contains(text, "at 127.0.0.1, ") {
			t.Errorf("the report does not say where it was:\n%s", text)
		}
	}
	if !strings.Contains(all, "blocks ±") {
		t.Errorf("the report does not say how far the blocks are apart:\n%s", all)
	}
	l.end(t, syscall.SIGINT)
	p.nothingLeft(t)
	l.nothingLeft(t)
	for i, s := range outputs {
		if strings.Contains(s.stdout+s.stderr, l.token) {
			t.Errorf("output %d has the token in it", i)
		}
	}
	if strings.Contains(l.logText(), l.token) {
		t.Error("the server's log has the token in it")
	}
	wantInNoFile(t, p.dir, l.token)
	wantInNoFile(t, l.dir, l.token)
}

// wantInNoFile wants a text in no file below a directory.
func wantInNoFile(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			t.Errorf("%s has the token in it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A workload whose times would include the network refuses, and says why.
func TestRemoteRefused(t *testing.T) {
	l := lend(t, newTestEnv(t), "--engine", "native,floor")
	p := l.client(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "lifecycle", "--remote", l.address, "--engine", "native", "--blocks", "6"}, 4, "would include the network"},
		{
			[]string{"run", "net-rtt", "--remote", l.address, "--engine", "docker", "--network", "host", "--blocks", "6"},
			4,
			"is not served here; these are: native, floor",
		},
		{[]string{"run", "net-rtt", "--remote", l.address, "--engine", "runc,binary=/bin/sh", "--blocks", "6"}, 2, "tare agent serve --engine"},
		{[]string{"run", "net-rtt", "--engine", "remote,name=there,engine=native", "--blocks", "6"}, 2, "needs an address"},
		{
			[]string{
				"run", "net-rtt", "--remote", l.address, "--engine", "native", "--network", "native", "--param", "size=24",
				"--blocks", "6", "--token-file", "none",
			}, 2, "no such file",
		},
		{[]string{"run", "net-rtt", "--remote", "127.0.0.1:1"}, 1, "check that 'tare agent serve' runs there"},
		{[]string{"doctor", "--remote", "127.0.0.1:1"}, 1, "connection refused"},
	} {
		result := p.tare(t, test.args...)
		if result.code != test.code || !strings.Contains(result.stderr, test.want) {
			t.Errorf("tare %s: exit code %d, want %d and %q\n%s",
				strings.Join(test.args, " "), result.code, test.code, test.want, result.stderr)
		}
	}
	for token, want := range map[string]string{
		"":                            "$TARE_TOKEN",
		"short":                       "characters",
		"anothertokenofthesamelength": "token rejected",
	} {
		p.env = []string{"TARE_TOKEN=" + token}
		result := p.tare(t, l.asked()...)
		if result.code == 0 || !strings.Contains(result.stderr, want) {
			t.Errorf("token %q: exit code %d\n%s\nwant %q", token, result.code, result.stderr, want)
		}
		if token != "" && strings.Contains(result.stderr, token) {
			t.Errorf("the error repeats the token: %s", result.stderr)
		}
	}
	p.nothingLeft(t)
	l.nothingLeft(t)
}

// A token that is in a file is for its owner alone, and one that is made goes
// there.
func TestTokenFile(t *testing.T) {
	server := newTestEnv(t)
	file := filepath.Join(server.dir, "token")
	l := lend(t, server, "--token-file", file, "--engine", "native")
	if l.token != "" {
		t.Error("a token that is in a file is printed")
	}
	p := newTestEnv(t)
	p.must(t, "doctor", "--remote", l.address, "--token-file", file)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if result := p.tare(t, "doctor", "--remote", l.address, "--token-file", file); result.code != 2 ||
		!strings.Contains(result.stderr, "chmod 600") {
		t.Errorf("a token that all can read: exit code %d\n%s", result.code, result.stderr)
	}
	for _, args := range [][]string{
		{"agent", "serve", "--json"}, {"agent", "serve", "--sessions", "0"}, {"agent", "serve", "--engine", "nosuch"}, {"agent", "serve", "--token-file", file},
	} {
		if result := p.tare(t, args...); result.code != 2 {
			t.Errorf("tare %s: exit code %d, want 2\n%s", strings.Join(args, " "), result.code, result.stderr)
		}
	}
}

// A server that is killed in the middle of a trial costs the client that trial
// and those after it, in good time; what it left is removed there by clean.
func TestServerKilled(t *testing.T) {
	t.Parallel() // it waits for the server, and measures nothing
	l := lend(t, newTestEnv(t))
	p := l.client(t)
	r := p.begin(t,
		l.asked("--pings", "1000000000", "--trial-timeout", "10m", "--operation-timeout", "10m",
			"--output", p.recordFile())...)
	p.awaitStart(t, r) // the load generator runs, so the server does
	session := l.session(t)
	l.end(t, syscall.SIGKILL)
	result := r.end(t)
	run := p.recorded(t)
	if len(run.Samples) == 0 || run.Samples[0].Outcome != bench.Failed {
		t.Fatalf("exit code %d, samples %+v, want the first trial failed\n%s", result.code, run.Samples, result.stderr)
	}
	if result.code != 3 && result.code != 1 {
		t.Errorf("exit code %d\n%s", result.code, result.stderr)
	}
	if !strings.Contains(result.stdout+result.stderr, l.address) {
		t.Errorf("nothing says that %s is away:\n%s%s", l.address, result.stdout, result.stderr)
	}
	p.nothingLeft(t)
	if out := l.must(t, "clean"); !strings.Contains(out.stdout, "removed process") {
		t.Errorf("clean on the server's machine: %s%s", out.stdout, out.stderr)
	}
	if left := append(l.directories(t), processes([]string{session})...); len(left) > 0 {
		t.Errorf("left after clean: %q", left)
	}
}

// A client that is killed leaves nothing on the server's machine.
func TestClientKilled(t *testing.T) {
	t.Parallel() // it measures nothing
	l := lend(t, newTestEnv(t))
	p := l.client(t)
	r := p.begin(t, l.asked("--pings", "1000000000", "--trial-timeout", "10m", "--operation-timeout", "10m")...)
	p.awaitStart(t, r)
	session := l.session(t)
	r.signal(t, syscall.SIGKILL)
	r.end(t)
	l.awaitLog(t, "everything that it made is removed")
	if left := append(l.directories(t), processes([]string{session})...); len(left) > 0 {
		t.Errorf("left by the session: %q", left)
	}
	p.must(t, "clean")
	p.nothingLeft(t)
	if result := p.tare(t, "doctor", "--remote", l.address); result.code != 0 {
		t.Errorf("the next client is not served: %s", result.stderr)
	}
}

// Two machines: this one, and a network namespace that reaches it by a cable. The
// servers are found at the address by which this machine was reached, those in
// containers by the port that is published there.
func TestTwoMachines(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	here, wrap := linkedNamespace(t)
	l := lend(t, newTestEnv(t), "--listen="+here+":0")
	p := l.client(t)
	p.wrap = wrap
	engines, networks := "native", "native"
	if len(usable(t, "docker")) > 0 {
		engines, networks = "native,docker", "native,host,published"
	}
	p.must(t, l.askedOf(engines, networks, "--blocks", "2", "--warmup", "0", "--no-control")...)
	run := p.last(t)
	for _, s := range run.Samples {
		cell := run.Header.Plan.Cells[s.Trial.Cell]
		if s.Outcome != bench.OK {
			t.Errorf("%s: %s: %s", cell.Name, s.Outcome, s.Reason)
			continue
		}
		if s.Applied.Path[0] != "network" || cell.Spec.Reach != "" && !slices.Contains(s.Applied.Path, "veth") {
			t.Errorf("%s: path %q", cell.Name, s.Applied.Path)
		}
	}
	if at := run.Header.Engines[0].Away.Address; at != here {
		t.Errorf("the machine was reached at %s, want %s", at, here)
	}
	if result := p.tare(t, "run", "net-rtt", "--remote", "198.51.100.1:1", "--engine", "native"); result.code != 1 {
		t.Errorf("an address that nobody has: exit code %d\n%s", result.code, result.stderr)
	}
	l.end(t, syscall.SIGINT)
	p.nothingLeft(t)
	l.nothingLeft(t)
}

// linkedNamespace makes a network namespace that reaches this one. It returns the address
// here, and what runs a program there.
func linkedNamespace(t *testing.T) (here string, wrap []string) {
	t.Helper()
	name := fmt.Sprintf("tare%d", os.Getpid())
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	third := os.Getpid() % 250
	here, there := fmt.Sprintf("10.213.%d.1", third), fmt.Sprintf("10.213.%d.2", third)
	ip("netns add " + name)
	t.Cleanup(func() { ip("netns del " + name) }) // with the cable
	ip("link add " + name + " type veth peer name far netns " + name)
	ip("address add " + here + "/24 dev " + name)
	ip("link set " + name + " up")
	ip("-n " + name + " address add " + there + "/24 dev far")
	ip("-n " + name + " link set far up")
	ip("-n " + name + " link set lo up")
	return here, []string{"nsenter", "--net=/run/netns/" + name} // ip netns exec would hide the control groups
}
