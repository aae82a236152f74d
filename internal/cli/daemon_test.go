package cli_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// A daemon is a containerd of the test's own, and a dockerd over it where one
// was begun, each in a network namespace of its own: they share nothing with what
// the machine runs. With --bridge=none, dockerd deletes whatever is called
// docker0 where it runs.
type daemon struct {
	dir, socket string // of dockerd
	containerd  *exec.Cmd
	dockerd     *exec.Cmd
}

func startDocker(t *testing.T) *daemon {
	t.Helper()
	d := startContainerd(t)
	d.begin(t)
	return d
}

func startContainerd(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-daemon-")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: dir, socket: filepath.Join(dir, "docker.sock")}
	bridge := bridgeIndex()
	t.Cleanup(func() {
		d.remove(t)
		if now := bridgeIndex(); now != bridge {
			t.Errorf("the machine's own docker0 was interface %d and is %d", bridge, now)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "containerd.toml"),
		[]byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.beginContainerd(t)
	return d
}

// beginContainerd starts containerd, again after it died.
func (d *daemon) beginContainerd(t *testing.T) {
	t.Helper()
	d.containerd = d.start(t, "containerd", "--config", filepath.Join(d.dir, "containerd.toml"), "--address",
		d.containerdSocket(), "--root", filepath.Join(d.dir, "containerd"), "--state",
		filepath.Join(d.dir, "containerd-state"))
	d.await(t, func() bool {
		c, err := net.Dial("unix", d.containerdSocket())
		return err == nil && c.Close() == nil
	})
}

// bridgeIndex is the number of the machine's own docker0; 0 where there is none.
func bridgeIndex() int {
	i, err := net.InterfaceByName("docker0")
	if err != nil {
		return 0
	}
	return i.Index
}

func (d *daemon) containerdSocket() string { return filepath.Join(d.dir, "containerd.sock") }

// begin starts dockerd, again after it died.
func (d *daemon) begin(t *testing.T) {
	t.Helper()
	d.dockerd = d.start(t, "dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false",
		"--host", "unix://"+d.socket, "--containerd", d.containerdSocket(), "--pidfile", filepath.Join(d.dir, "pid"),
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "exec"))
	d.await(t, func() bool { _, ok := ask(t, d.socket, "/_ping"); return ok })
}

func (d *daemon) start(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func (d *daemon) log() string { return filepath.Join(d.dir, "log") }

func (d *daemon) await(t *testing.T, ready func() bool) {
	t.Helper()
	for until := time.Now().Add(testTimeout); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if ready() {
			return
		}
	}
	log, _ := os.ReadFile(d.log()) // better than nothing
	t.Fatalf("the daemon does not answer after %v:\n%s", testTimeout, log)
}

// kill ends a daemon as a crash does. Containers live on.
func kill(t *testing.T, daemon *exec.Cmd) {
	t.Helper()
	if err := daemon.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = daemon.Wait() // it was killed
}

func (d *daemon) killDocker(t *testing.T) {
	t.Helper()
	kill(t, d.dockerd)
	// Its process is gone, but the file would keep the next one from starting.
	if err := os.Remove(filepath.Join(d.dir, "pid")); err != nil {
		t.Error(err)
	}
}

func (d *daemon) remove(t *testing.T) {
	t.Helper()
	for _, cmd := range []*exec.Cmd{d.dockerd, d.containerd} {
		if cmd == nil {
			continue
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it says how it was ended
	}
	for _, trace := range processes([]string{d.dir}) {
		t.Errorf("left behind: %s", trace)
	}
	d.unmount(t)
	if err := os.RemoveAll(d.dir); err != nil {
		t.Errorf("left behind: %v", err)
	}
}

// unmount takes down what dockerd does not find again after a crash.
func (d *daemon) unmount(t *testing.T) {
	t.Helper()
	all := mountsBelow(t, d.dir)
	for _, point := range slices.Backward(all) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", point, err)
		}
	}
}

// A daemon that dies takes its cell with it, and no other: the run goes on and
// says why. Once it runs again, clean removes what was left there.
func TestDockerDies(t *testing.T) {
	t.Parallel() // it waits for the daemon, and measures nothing
	for name, args := range map[string][]string{
		"whole trials": {"lifecycle"},
		"turns":        {"cpu", "--param", "time=200ms", "--param", "kernels=prime", "--interleave", "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // as above
			dockerDies(t, args...)
		})
	}
}

func dockerDies(t *testing.T, args ...string) {
	require(t, "docker")
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		t.Skipf("only root can run a dockerd of the test's own: %v", err)
	}
	d := startDocker(t)
	p := newTestEnv(t)
	p.docker = d.socket
	r := p.begin(t, append(append([]string{"run"}, args...), "--engine", "native,docker,name=mine,host=unix://"+d.socket,
		"--blocks", "10", "--warmup", "0", "--washout", "off", "--precision", "off", "--no-control",
		"--operation-timeout", "5s")...)
	p.await(t, r, 4)
	d.killDocker(t)
	result := r.end(t)
	if result.code != 3 {
		t.Errorf("exit code %d, want 3\n%s", result.code, result.stderr)
	}
	p.wantDead(t)
	if !strings.Contains(result.stderr, "tare clean") {
		t.Errorf("it does not say that 'tare clean' removes what is left:\n%s", result.stderr)
	}

	// As long as it does not answer, clean knows that it does not know.
	if still := p.tare(t, "clean"); still.code == 0 || !strings.Contains(still.stderr, "cannot ask mine what run") {
		t.Errorf("clean without the daemon: exit code %d\n%s%s", still.code, still.stdout, still.stderr)
	}
	d.begin(t)
	if text, ok := ask(t, d.socket, "/images/json"); !ok || !strings.Contains(text, p.last(t).Header.ID) {
		t.Errorf("the daemon has nothing of the run, so that there is nothing to clean:\n%s", text)
	}
	p.cleans(t)
}

// wantDead wants a run whose second cell failed from some trial on.
func (p *testEnv) wantDead(t *testing.T) {
	t.Helper()
	got := p.last(t)
	if got.End == nil {
		t.Error("the run is not finished")
	}
	failed := 0
	for _, s := range got.Samples {
		switch {
		case s.Trial.Cell == 0 && s.Outcome != bench.OK:
			t.Errorf("native, trial %d: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		case s.Outcome == bench.Failed && strings.TrimSpace(s.Reason) == "":
			t.Errorf("trial %d failed for no reason", s.Trial.Seq)
		case s.Outcome == bench.Failed:
			failed++
			t.Logf("trial %d: %s", s.Trial.Seq, s.Reason)
		}
	}
	if failed != 3 {
		t.Errorf("%d trials failed before the cell was given up, want 3", failed)
	}
}
