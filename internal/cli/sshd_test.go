package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sshds are real OpenSSH servers, each in a network namespace of its own.
type sshds struct {
	hosts
	slot  int            // among those that a test has at the same time, for what has to be different
	known string         // the file of known hosts
	pids  map[string]int // of the servers, by machine
}

// sshdSlots are free slots.
var sshdSlots = func() chan int {
	free := make(chan int, 2)
	free <- 0
	free <- 1
	return free
}()

// address is where the server of a machine listens.
func (s *sshds) address(name string) string {
	for i, other := range s.names {
		if other == name {
			return fmt.Sprintf("10.214.%d.2", os.Getpid()%60*4+s.slot*2+i)
		}
	}
	return ""
}

// A neededDir is a directory that is there as long as a test needs it.
type neededDir struct {
	path string

	mu    sync.Mutex
	users int
	made  bool // it was not there before
}

// sshdNeeds is what each connection to an sshd wants.
var sshdNeeds = &neededDir{path: "/run/sshd"}

func (d *neededDir) take() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users++; d.users == 1 {
		d.made = os.Mkdir(d.path, 0o755) == nil
	}
}

func (d *neededDir) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 && d.made {
		_ = os.Remove(d.path) // others may use it now
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (s *sshds) write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// startSSHDs starts servers until the test ends. Their host keys are not known yet.
func startSSHDs(t *testing.T, program string, names ...string) *sshds {
	t.Helper()
	s := &sshds{hosts: hosts{dir: newTestEnv(t).dir, names: names}, slot: <-sshdSlots, pids: map[string]int{}}
	t.Cleanup(func() { sshdSlots <- s.slot })
	sshdNeeds.take()
	t.Cleanup(sshdNeeds.leave)
	for _, key := range []string{"host", "user"} {
		command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, key))
	}
	public, err := os.ReadFile(filepath.Join(s.dir, "user.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "keys", string(public), 0o600)
	s.known = s.write(t, "known", "", 0o600)
	var config strings.Builder
	config.WriteString(fmt.Sprintf("User root\nIdentityFile %s/user\nIdentitiesOnly yes\nUserKnownHostsFile %s\n"+
		"GlobalKnownHostsFile none\nStrictHostKeyChecking ask\nPort 2222\n", s.dir, s.known))
	for _, name := range names {
		config.WriteString(fmt.Sprintf("Host %s\n  HostName %s\n", name, s.address(name)))
		s.start(t, program, name, s.space(name))
	}
	file := s.write(t, configFile, config.String(), 0o600)
	s.ssh = s.write(t, "ssh", "#!/bin/sh\nexec ssh -F "+file+" \"$@\"\n", 0o700)
	return s
}

// configFile is the client's configuration.
const configFile = "config"

// alias gives a machine one more name.
func (s *sshds) alias(t *testing.T, name, of string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, configFile))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, configFile, fmt.Sprintf("%sHost %s\n  HostName %s\n", text, name, s.address(of)), 0o600)
}

// space is the network namespace of a machine, and what its end of the cable here is called.
func (s *sshds) space(name string) string {
	return fmt.Sprintf("tare%d-%d%d", os.Getpid(), s.slot, slices.Index(s.names, name))
}

// link cuts the cable to a machine ("down"), or mends it ("up").
func (s *sshds) link(t *testing.T, name, state string) {
	t.Helper()
	command(t, "ip", "link", "set", s.space(name), state)
}

// start makes a namespace with a cable, and a server in it.
func (s *sshds) start(t *testing.T, program, name, space string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	ip := func(args string) { t.Helper(); command(t, "ip", strings.Fields(args)...) }
	here := strings.TrimSuffix(s.address(name), "2") + "1"
	ip("netns add " + space)
	t.Cleanup(func() { ip("netns del " + space) })
	ip("link add " + space + " type veth peer name far netns " + space)
	t.Cleanup(func() { ip("link del " + space) }) // with its namespace it goes some time later
	ip("address add " + here + "/24 dev " + space)
	ip("link set " + space + " up")
	ip("-n " + space + " address add " + s.address(name) + "/24 dev far")
	ip("-n " + space + " link set far up")
	ip("-n " + space + " link set lo up")
	config := s.write(t, name+".conf", fmt.Sprintf("ListenAddress %[1]s:2222\nHostKey %[2]s/host\nPidFile none\n"+
		"AuthorizedKeysFile %[2]s/keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"+
		"KbdInteractiveAuthentication no\nPermitRootLogin yes\n"+
		"SetEnv XDG_CACHE_HOME=%[2]s/%[3]s/.cache TARE_STATE=%[2]s/%[3]s/state\n", s.address(name), s.dir, name), 0o600)
	cmd := exec.Command("nsenter", "--net=/run/netns/"+space, program, "-D", "-e", "-f", config)
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pids[name] = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // sessions have ended
		_ = cmd.Wait()
		_ = log.Close()
	})
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(log.Name())
		if err == nil && strings.Contains(string(text), "Server listening") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sshd does not listen: %s", text)
		}
	}
}

// trust accepts the servers' host key, as a user does who has compared it.
func (s *sshds) trust(t *testing.T) {
	t.Helper()
	public, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	var known strings.Builder
	for _, name := range s.names {
		known.WriteString(fmt.Sprintf("[%s]:2222 %s", s.address(name), public))
	}
	s.write(t, "known", known.String(), 0o600)
}

// refuse makes the servers accept no key any more.
func (s *sshds) refuse(t *testing.T) { t.Helper(); s.write(t, "keys", "", 0o600) }
