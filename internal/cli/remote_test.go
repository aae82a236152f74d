package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A farMachine is another machine: a home and a state directory of its own, and an ssh that runs here
// what it is asked to run there.
type farMachine struct {
	*testEnv
	ssh     string
	address string // at which clients reach it
}

// newFarMachine makes a machine. Body is what its ssh does; $command is what it is asked to run.
func newFarMachine(t *testing.T, body string) *farMachine {
	t.Helper()
	p := newTestEnv(t)
	l := &farMachine{testEnv: p, ssh: filepath.Join(p.dir, "ssh"), address: "127.0.0.1"}
	l.setSSH(t, body)
	return l
}

// runsCommand is what a plain sshd does.
const runsCommand = `exec sh -c "$command"`

func (l *farMachine) setSSH(t *testing.T, body string) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\nfor command; do :; done\nexport HOME=%s TARE_STATE=%s "+
		"SSH_CONNECTION='127.0.0.9 1 %s 22'\nunset XDG_CACHE_HOME TARE_STORE\n%s\n", l.dir, l.state, l.address, body)
	if err := os.WriteFile(l.ssh, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// client is a place whose tare reaches the machine as "far".
func (l *farMachine) client(t *testing.T) *testEnv {
	t.Helper()
	p := newTestEnv(t)
	p.env = append(p.env, "TARE_SSH="+l.ssh)
	return p
}

// gone wants the machine to be as it was: no program, no run.
func (l *farMachine) gone(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(l.dir, ".cache", "tare")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left on the other machine: its directory: %v", err)
	}
	for _, dir := range l.directories(t) {
		t.Errorf("left on the other machine: %s", dir)
	}
}

// logFile is where a lending machine logs.
func (l *farMachine) logFile() string { return filepath.Join(l.dir, "log") }

func (l *farMachine) logText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(l.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// lends is what an sshd does for a key that may only borrow engines.
func (l *farMachine) lends(args string) string {
	return "exec tare agent serve --log " + l.logFile() + " " + args
}

// awaitLog waits for the machine to log something.
func (l *farMachine) awaitLog(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !strings.Contains(l.logText(t), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the machine does not log %q:\n%s", text, l.logText(t))
		}
	}
}

// session is the ID of the newest session.
func (l *farMachine) session(t *testing.T) string {
	t.Helper()
	all := regexp.MustCompile(`session (\S+) has begun`).FindAllStringSubmatch(l.logText(t), -1)
	if len(all) == 0 {
		t.Fatalf("no session:\n%s", l.logText(t))
	}
	return all[len(all)-1][1]
}

// asked is a run of round trips to plain processes of the other machine.
func asked(more ...string) []string { return askedOf("native", "native", more...) }

// askedOf is one of round trips to others as well.
func askedOf(engines, networks string, more ...string) []string {
	return append([]string{
		"run", "net-rtt", "--remote", "far", "--engine", engines, "--network", networks,
		"--blocks", "6", "--washout", "off", "--precision", "off", "--pings", "1000",
	}, more...)
}

// What the other machine does is measured from here, and the run says where that was.
func TestRemoteRun(t *testing.T) {
	t.Parallel() // it asserts no time
	l := newFarMachine(t, runsCommand)
	p := l.client(t)
	first := p.must(t, asked("--verbose")...)
	for _, args := range [][]string{
		{"doctor", "--remote", "far"},
		{"doctor", "--remote", "far", "--json"},
		{"plan", "net-rtt", "--remote", "far", "--engine", "native"},
	} {
		p.must(t, args...)
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
	for _, text := range []string{first.stdout, all} {
		if !strings.Contains(text, "at 127.0.0.1, ") {
			t.Errorf("the report does not say where it was:\n%s", text)
		}
	}
	if !strings.Contains(all, "blocks ±") {
		t.Errorf("the report does not say how far the blocks are apart:\n%s", all)
	}
	if !strings.Contains(first.stderr, "far: ") || !strings.Contains(first.stderr, "everything that it made is removed") {
		t.Errorf("--verbose does not show what the other machine logs:\n%s", first.stderr)
	}
	p.nothingLeft(t)
	l.gone(t)
}

// Who may only borrow engines gets those that are lent, and every call is logged. A workload whose
// times would include the network refuses, and says why.
func TestRemoteRefused(t *testing.T) {
	t.Parallel() // nothing is measured
	l := newFarMachine(t, "")
	l.setSSH(t, l.lends("--engine native,floor"))
	p := l.client(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "lifecycle", "--remote", "far", "--engine", "native", "--blocks", "6"}, 4, "would include the network"},
		{
			[]string{"run", "net-rtt", "--remote", "far", "--engine", "docker", "--network", "host", "--blocks", "6"},
			4,
			"is not served here; these are: native, floor",
		},
		{[]string{"run", "net-rtt", "--remote", "far", "--engine", "runc,binary=/bin/sh", "--blocks", "6"}, 2, "is declared for this machine"},
		{[]string{"run", "net-rtt", "--engine", "remote,name=there,engine=native", "--blocks", "6"}, 2, "needs a host"},
		{[]string{"run", "net-rtt", "--remote", "-oProxyCommand=id"}, 2, "is no host"},
	} {
		result := p.tare(t, test.args...)
		if result.code != test.code || !strings.Contains(result.stderr, test.want) {
			t.Errorf("tare %s: exit code %d, want %d and %q\n%s",
				strings.Join(test.args, " "), result.code, test.code, test.want, result.stderr)
		}
	}
	for _, want := range []string{"session ", "has begun", `probe of "native"`, "everything that it made is removed"} {
		if !strings.Contains(l.logText(t), want) {
			t.Errorf("the log lacks %q:\n%s", want, l.logText(t))
		}
	}
	p.nothingLeft(t)
	l.gone(t)
}

// What ssh, or the other machine, says against it reaches the user, with what to do.
func TestRemoteUnreachable(t *testing.T) {
	t.Parallel() // nothing is measured
	l := newFarMachine(t, "")
	p := l.client(t)
	for name, test := range map[string]struct{ body, says, advice string }{
		"refused":      {"echo 'ssh: connect to host far port 22: Connection refused' >&2; exit 255", "far: ssh: connect to host", "ssh -o BatchMode=yes far"},
		"unknown key":  {"echo 'Host key verification failed.' >&2; exit 255", "Host key verification failed", "'ssh far'"},
		"architecture": {"mkdir -p $HOME/bin; printf '#!/bin/sh\\n[ $1 = -s ] && echo Linux || echo aarch64\\n' >$HOME/bin/uname; chmod 700 $HOME/bin/uname; PATH=$HOME/bin:$PATH; " + runsCommand, "architecture arm64", "make bin/tare-linux-arm64"},
		"no tare":      {"echo hello; exit 1", "could not be started", "see what 'ssh far"},
		"hostile":      {`printf 'tare-host \033[31m\342\200\256\n'; exit 1`, "could not be started", "see what"},
		"version":      {`echo 'tare-agent {"protocol":2,"version":"v0.0.1"}'; sleep 1`, `"v0.0.1" there`, "same version"},
	} {
		l.setSSH(t, test.body)
		result := p.tare(t, "doctor", "--remote", "far")
		if result.code != 1 || !strings.Contains(result.stderr, test.says) || !strings.Contains(result.stderr, test.advice) {
			t.Errorf("%s: exit code %d, want %q and %q\n%s", name, result.code, test.says, test.advice, result.stderr)
		}
		if strings.ContainsAny(result.stderr, "\x1b\u202e") {
			t.Errorf("%s: %q shows what the machine has sent", name, result.stderr)
		}
	}
	p.env = append(p.env, "TARE_SSH=/nowhere/ssh")
	if result := p.tare(t, "doctor", "--remote", "far"); result.code != 1 || !strings.Contains(result.stderr, "TARE_SSH") {
		t.Errorf("an ssh that is not there: exit code %d\n%s", result.code, result.stderr)
	}
}

// Behind NAT, the address that the other machine has is none at which it is reached. This is said, and
// another one can be named.
func TestRemoteBehindNAT(t *testing.T) {
	t.Parallel() // nothing is measured
	l := newFarMachine(t, "")
	l.address = "224.0.0.1" // to which the kernel connects nobody
	l.setSSH(t, runsCommand)
	p := l.client(t)
	short := []string{"--warmup", "0", "--no-control", "--blocks", "1"}
	result := p.tare(t, asked(short...)...)
	if result.code == 0 || !strings.Contains(result.stderr, "cannot be reached at 224.0.0.1") ||
		!strings.Contains(strings.Join(strings.Fields(result.stderr), " "), "option address of the engine") {
		t.Errorf("exit code %d, want where the server was looked for and what to do\n%s", result.code, result.stderr)
	}
	named := func(address string) []string {
		return append([]string{
			"run", "net-rtt", "--engine", "remote,name=there,at=far,engine=native,address=" + address, "--network", "host",
			"--washout", "off", "--precision", "off", "--pings", "1000",
		}, short...)
	}
	p.must(t, named("127.0.0.1")...)
	if at := p.last(t).Header.Engines[0].Away.Address; at != "127.0.0.1" {
		t.Errorf("the run says that the machine was at %s", at)
	}
	if result := p.tare(t, named("nat.example")...); result.code == 0 ||
		!strings.Contains(result.stderr, `address "nat.example" is no IP address`) {
		t.Errorf("a name as the address: exit code %d\n%s", result.code, result.stderr)
	}
	p.nothingLeft(t)
	l.gone(t)
}

// 'tare agent serve' explains itself to who types it wrongly.
func TestServeRefused(t *testing.T) {
	p := newTestEnv(t)
	for _, args := range [][]string{
		{"agent", "serve", "--containers", "0"},
		{"agent", "serve", "--engine", "nosuch"},
		{"agent", "serve", "--log", "/nowhere/log"},
		{"agent", "serve", "--engine", "remote,name=x,at=y"},
	} {
		if result := p.tare(t, args...); result.code != 2 {
			t.Errorf("tare %s: exit code %d, want 2\n%s", strings.Join(args, " "), result.code, result.stderr)
		}
	}
}

// endlessRun is a run whose first trial lasts until something happens.
func endlessRun(p *testEnv) []string {
	return asked("--pings", "1000000000", "--trial-timeout", "10m", "--operation-timeout", "10m", "--output", p.recordFile())
}

// A tare on the other machine that is killed in the middle of a trial costs the client that trial and
// those after it, in good time; what it left is removed there by clean.
func TestServerKilled(t *testing.T) {
	t.Parallel() // it waits for the other side, and measures nothing
	l := newFarMachine(t, "")
	// The first session is killed; the others are served.
	l.setSSH(t, "echo $$ >>$HOME/pids; "+l.lends(""))
	p := l.client(t)
	r := p.begin(t, endlessRun(p)...)
	p.awaitStart(t, r) // the load generator runs, so the server does
	session := l.session(t)
	text, err := os.ReadFile(filepath.Join(l.dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	l.setSSH(t, "echo 'ssh: connect to host far port 22: Connection refused' >&2; exit 255")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	result := r.end(t)
	run := p.recorded(t)
	if len(run.Samples) == 0 || run.Samples[0].Outcome != bench.Failed {
		t.Fatalf("exit code %d, samples %+v, want the first trial failed\n%s", result.code, run.Samples, result.stderr)
	}
	if result.code != 3 && result.code != 1 {
		t.Errorf("exit code %d\n%s", result.code, result.stderr)
	}
	if !strings.Contains(result.stdout+result.stderr, "far: ") {
		t.Errorf("nothing says that the machine is away:\n%s%s", result.stdout, result.stderr)
	}
	p.nothingLeft(t)
	if out := l.must(t, "clean"); !strings.Contains(out.stdout, "removed process") {
		t.Errorf("clean on the other machine: %s%s", out.stdout, out.stderr)
	}
	if left := append(l.directories(t), processes([]string{session})...); len(left) > 0 {
		t.Errorf("left after clean: %q", left)
	}
}

// A client that is killed leaves nothing on the other machine.
func TestClientKilled(t *testing.T) {
	t.Parallel() // it asserts no time
	l := newFarMachine(t, "")
	l.setSSH(t, l.lends(""))
	p := l.client(t)
	r := p.begin(t, endlessRun(p)...)
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
	if result := p.tare(t, "doctor", "--remote", "far"); result.code != 0 {
		t.Errorf("the next client is not served: %s", result.stderr)
	}
}

// Two machines: this one, and a network namespace that reaches it by a cable. The servers are found
// at the address by which this machine was reached, those in containers by the port that is published
// there.
func TestTwoMachines(t *testing.T) {
	t.Parallel() // it asserts no time
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	here, wrap := linkedNamespace(t)
	l := newFarMachine(t, "")
	l.address = here
	l.setSSH(t, fmt.Sprintf(`exec nsenter --net=/proc/%d/ns/net sh -c "$command"`, os.Getpid()))
	p := l.client(t)
	p.wrap = wrap
	engines, networks := "native", "native"
	if len(usable(t, "docker")) > 0 {
		engines, networks = "native,docker", "native,host,published"
	}
	p.must(t, askedOf(engines, networks, "--blocks", "2", "--warmup", "0", "--no-control")...)
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
	p.nothingLeft(t)
	l.gone(t)
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
