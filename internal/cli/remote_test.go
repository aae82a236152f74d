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

// A lender is 'tare agent serve' while it runs, in a place of its own.
type lender struct {
	*place
	cmd            *exec.Cmd
	address, token string
	exited         chan error

	mu  sync.Mutex
	log bytes.Buffer
}

func (l *lender) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *lender) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// lend begins to serve on loopback; the end of the test ends it.
func lend(t *testing.T, p *place, args ...string) *lender {
	t.Helper()
	l := &lender{place: p, exited: make(chan error, 1)}
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
		t.Fatalf("the server does not say where it listens:\n%s", l.said())
	}
	return l
}

// end ends the server, if nobody has yet.
func (l *lender) end(t *testing.T, how syscall.Signal) {
	t.Helper()
	if l.cmd == nil {
		return
	}
	_ = l.cmd.Process.Signal(how) // it may have ended
	select {
	case err := <-l.exited:
		if err != nil && how != syscall.SIGKILL {
			t.Errorf("the server ends with %v:\n%s", err, l.said())
		}
	case <-time.After(patience):
		_ = l.cmd.Process.Kill() // the test has failed already
		t.Errorf("the server does not end:\n%s", l.said())
	}
	l.cmd = nil
}

// client is a place that has the server's token.
func (l *lender) client(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	p.env = append(p.env, "TARE_TOKEN="+l.token)
	return p
}

// until waits for the server to say something.
func (l *lender) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(l.said(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not say %q:\n%s", text, l.said())
		}
	}
}

// session is the ID of the newest session.
func (l *lender) session(t *testing.T) string {
	t.Helper()
	all := regexp.MustCompile(`session (\S+): `).FindAllStringSubmatch(l.said(), -1)
	if len(all) == 0 {
		t.Fatalf("no session:\n%s", l.said())
	}
	return all[len(all)-1][1]
}

// asked is a run of round trips to plain processes of the server's machine.
func (l *lender) asked(more ...string) []string { return l.askedOf("native", "native", more...) }

// askedOf is one of round trips to others as well.
func (l *lender) askedOf(engines, networks string, more ...string) []string {
	return append([]string{
		"run", "net-rtt", "--remote", l.address, "--engine", engines, "--network", networks,
		"--blocks", "6", "--washout", "off", "--precision", "off", "--pings", "1000",
	}, more...)
}

// What the machine of the server does is measured from here, and the run says
// where that was. Nobody ever sees the token but who started the server.
func TestRemoteRun(t *testing.T) {
	l := lend(t, newPlace(t))
	p := l.client(t)
	outputs := []said{
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
	if e := run.Header.Engines[i]; e.Driver != "remote" || e.Away == nil || e.Away.Address != "127.0.0.1" || e.Away.Host.Kernel == "" || e.Away.RoundTrip <= 0 {
		t.Errorf("the run says of the engine %+v, want the machine that it is on", e)
	}
	if !strings.Contains(outputs[0].stdout, "at 127.0.0.1, ") || !strings.Contains(outputs[0].stdout, "blocks ±") {
		t.Errorf("the report does not say where it was, or how far the blocks are apart:\n%s", outputs[0].stdout)
	}
	l.end(t, syscall.SIGINT)
	p.nothingLeft(t)
	l.nothingLeft(t)
	for i, s := range outputs {
		if strings.Contains(s.stdout+s.stderr, l.token) {
			t.Errorf("output %d has the token in it", i)
		}
	}
	if strings.Contains(l.said(), l.token) {
		t.Error("the server's log has the token in it")
	}
	noFileHas(t, p.dir, l.token)
	noFileHas(t, l.dir, l.token)
}

// noFileHas wants a text in no file below a directory.
func noFileHas(t *testing.T, dir, text string) {
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
	l := lend(t, newPlace(t), "--engine", "native,floor")
	p := l.client(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "lifecycle", "--remote", l.address, "--engine", "native", "--blocks", "6"}, 4, "would include the network"},
		{[]string{"run", "net-rtt", "--remote", l.address, "--engine", "docker", "--network", "host", "--blocks", "6"}, 4,
			"is not served here; these are: native, floor"},
		{[]string{"run", "net-rtt", "--remote", l.address, "--engine", "runc,binary=/bin/sh", "--blocks", "6"}, 2, "tare agent serve --engine"},
		{[]string{"run", "net-rtt", "--engine", "remote,name=there,engine=native", "--blocks", "6"}, 2, "needs an address"},
		{[]string{"run", "net-rtt", "--remote", l.address, "--engine", "native", "--network", "native", "--param", "size=24", "--blocks", "6", "--token-file", "none"}, 2, "no such file"},
		{[]string{"run", "net-rtt", "--remote", "127.0.0.1:1"}, 1, "check that 'tare agent serve' runs there"},
		{[]string{"doctor", "--remote", "127.0.0.1:1"}, 1, "connection refused"},
	} {
		said := p.tare(t, test.args...)
		if said.code != test.code || !strings.Contains(said.stderr, test.want) {
			t.Errorf("tare %s: exit code %d, want %d and %q\n%s", strings.Join(test.args, " "), said.code, test.code, test.want, said.stderr)
		}
	}
	for token, want := range map[string]string{
		"":                            "$TARE_TOKEN",
		"short":                       "characters",
		"anothertokenofthesamelength": "token rejected",
	} {
		p.env = []string{"TARE_TOKEN=" + token}
		said := p.tare(t, l.asked()...)
		if said.code == 0 || !strings.Contains(said.stderr, want) {
			t.Errorf("token %q: exit code %d\n%s\nwant %q", token, said.code, said.stderr, want)
		}
		if token != "" && strings.Contains(said.stderr, token) {
			t.Errorf("the error repeats the token: %s", said.stderr)
		}
	}
	p.nothingLeft(t)
	l.nothingLeft(t)
}

// A token that is in a file is for its owner alone, and one that is made goes
// there.
func TestTokenFile(t *testing.T) {
	server := newPlace(t)
	file := filepath.Join(server.dir, "token")
	l := lend(t, server, "--token-file", file, "--engine", "native")
	if l.token != "" {
		t.Error("a token that is in a file is printed")
	}
	p := newPlace(t)
	p.must(t, "doctor", "--remote", l.address, "--token-file", file)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := p.tare(t, "doctor", "--remote", l.address, "--token-file", file); said.code != 2 || !strings.Contains(said.stderr, "chmod 600") {
		t.Errorf("a token that all can read: exit code %d\n%s", said.code, said.stderr)
	}
	for _, args := range [][]string{{"agent", "serve", "--json"}, {"agent", "serve", "--sessions", "0"}, {"agent", "serve", "--engine", "nosuch"}, {"agent", "serve", "--token-file", file}} {
		if said := p.tare(t, args...); said.code != 2 {
			t.Errorf("tare %s: exit code %d, want 2\n%s", strings.Join(args, " "), said.code, said.stderr)
		}
	}
}

// A server that is killed in the middle of a trial costs the client that trial
// and those after it, in good time; what it left is removed there by clean.
func TestServerKilled(t *testing.T) {
	t.Parallel() // it waits for the server, and measures nothing
	l := lend(t, newPlace(t))
	p := l.client(t)
	r := p.begin(t, l.asked("--pings", "1000000000", "--trial-timeout", "10m", "--operation-timeout", "10m", "--output", p.recordFile())...)
	p.awaitStart(t, r) // the load generator runs, so the server does
	session := l.session(t)
	l.end(t, syscall.SIGKILL)
	said := r.end(t)
	run := p.recorded(t)
	if len(run.Samples) == 0 || run.Samples[0].Outcome != bench.Failed {
		t.Fatalf("exit code %d, samples %+v, want the first trial failed\n%s", said.code, run.Samples, said.stderr)
	}
	if said.code != 3 && said.code != 1 {
		t.Errorf("exit code %d\n%s", said.code, said.stderr)
	}
	if !strings.Contains(said.stdout+said.stderr, l.address) {
		t.Errorf("nothing says that %s is away:\n%s%s", l.address, said.stdout, said.stderr)
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
	l := lend(t, newPlace(t))
	p := l.client(t)
	r := p.begin(t, l.asked("--pings", "1000000000", "--trial-timeout", "10m", "--operation-timeout", "10m")...)
	p.awaitStart(t, r)
	session := l.session(t)
	r.signal(t, syscall.SIGKILL)
	r.end(t)
	l.until(t, "everything that it made is removed")
	if left := append(l.directories(t), processes([]string{session})...); len(left) > 0 {
		t.Errorf("left by the session: %q", left)
	}
	p.must(t, "clean")
	p.nothingLeft(t)
	if said := p.tare(t, "doctor", "--remote", l.address); said.code != 0 {
		t.Errorf("the next client is not served: %s", said.stderr)
	}
}

// Two machines: this one, and a network namespace that reaches it by a cable. The
// servers are found at the address by which this machine was reached, those in
// containers by the port that is published there.
func TestTwoMachines(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	here, wrap := cable(t)
	l := lend(t, newPlace(t), "--listen="+here+":0")
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
	if said := p.tare(t, "run", "net-rtt", "--remote", "198.51.100.1:1", "--engine", "native"); said.code != 1 {
		t.Errorf("an address that nobody has: exit code %d\n%s", said.code, said.stderr)
	}
	l.end(t, syscall.SIGINT)
	p.nothingLeft(t)
	l.nothingLeft(t)
}

// cable makes a network namespace that reaches this one. It returns the address
// here, and what runs a program there.
func cable(t *testing.T) (here string, wrap []string) {
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
