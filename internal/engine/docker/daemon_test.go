package docker_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// daemon starts an engine of the test's own that makes no network, and returns
// its host.
func daemon(t *testing.T, flags ...string) string {
	t.Helper()
	host, _ := daemonWith(t, append([]string{"--bridge=none", "--iptables=false"}, flags...)...)
	return host
}

// daemonWith starts an engine of the test's own, and returns its host and its
// process. It has a network namespace of its own: an engine that is told to
// have no bridge takes away the one that another engine uses. It has a
// containerd of its own too, since it would leave a namespace in another.
func daemonWith(t *testing.T, flags ...string) (host string, pid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("starting an engine needs root")
	}
	dir, err := os.MkdirTemp("", "tare-dockerd-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	config := "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"
	if err := os.WriteFile(in("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	begin(t, in("clog"), exec.Command("containerd",
		"--config", in("config"), "--root", in("croot"), "--state", in("cstate"), "--address", in("csock")))
	host = "unix://" + in("sock")
	cmd := exec.Command("dockerd", append([]string{
		"--host", host, "--data-root", in("data"), "--exec-root", in("exec"), "--pidfile", in("pid"),
		"--containerd", in("csock"),
	}, flags...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	begin(t, in("log"), cmd)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, err := docker.New(docker.Config{Name: "docker", Host: host}).Probe(t.Context())
		if err == nil {
			return host, cmd.Process.Pid
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(in("log")) // says what is known
			t.Fatalf("dockerd does not answer: %v\n%s", err, said)
		}
	}
}

// begin starts a program, which is ended with the test.
func begin(t *testing.T, log string, cmd *exec.Cmd) {
	t.Helper()
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	enginetest.Require(t, "docker", cmd.Start())
	t.Cleanup(func() {
		err := cmd.Process.Signal(syscall.SIGTERM)
		if err := errors.Join(err, cmd.Wait(), file.Close()); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	})
}

// A runtime that the engine has been given is one to compare.
func TestRuntimes(t *testing.T) {
	crun, err := exec.LookPath("crun")
	enginetest.Require(t, "crun", err)
	host := daemon(t, "--add-runtime", "crun="+crun)
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := docker.New(docker.Config{Name: "docker", Run: env.Run, Dir: env.Dir, Images: env.Images, Host: host})
	for _, runtime := range []string{"runc", "crun"} {
		if err := roundWith(t, e, runtime); err != nil {
			t.Errorf("%s: %v", runtime, err)
		}
	}
	if pids, err := e.Daemons(t.Context()); err != nil || len(pids) != 2 {
		t.Errorf("Daemons = %d, %v; want dockerd and containerd", pids, err)
	}
	err = roundWith(t, e, "youki-of-mine")
	for _, want := range []string{
		"dockerd --add-runtime youki-of-mine=/usr/bin/youki-of-mine",
		`"runtimes": {"youki-of-mine": {"path": "/usr/bin/youki-of-mine"}}`,
	} {
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("a runtime that is missing: %v, want bench.ErrUnsupported and %q", err, want)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// roundWith takes a container of a runtime through its life.
func roundWith(t *testing.T, e *docker.Engine, runtime string) error {
	t.Helper()
	ctx := t.Context()
	spec := bench.Spec{Runtime: runtime, Argv: []string{agent.Path, "echo", runtime}}
	if err := e.Prepare(ctx, spec); err != nil {
		return err
	}
	c, err := e.Create(ctx, spec)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	applied, err := c.Inspect(ctx)
	err = errors.Join(err, bench.Attest(spec, applied), c.Attach(ctx, &out, nil), c.Start(ctx))
	if err == nil {
		_, err = c.Wait(ctx)
	}
	if err == nil && out.String() != runtime+"\n" {
		err = fmt.Errorf("it printed %q", out.String())
	}
	return errors.Join(err, c.Remove(ctx))
}

// insideVariable has the address of the engine whose network namespace the test
// runs in.
const insideVariable = "TARE_TEST_NO_PROXY"

// An engine that has no proxy rewrites addresses instead, and Path says so. The
// engine has a network of its own, in which this test runs once more.
func TestPathWithoutProxy(t *testing.T) {
	if host := os.Getenv(insideVariable); host != "" {
		published(t, host, []string{"loopback", "NAT", "bridge docker0", "veth"})
		return
	}
	host, pid := daemonWith(t, "--userland-proxy=false")
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"env", insideVariable + "=" + host, os.Args[0], "-test.run=^TestPathWithoutProxy$", "-test.count=1"},
	} {
		cmd := exec.CommandContext(t.Context(), "nsenter",
			append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", pid)}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
}

// published wants the path to a published port to be that.
func published(t *testing.T, host string, want []string) {
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := docker.New(docker.Config{Name: "docker", Run: env.Run, Dir: env.Dir, Images: env.Images, Host: host})
	enginetest.Use(t, e)
	for _, protocol := range []string{"tcp", "udp"} {
		port := bench.Port{Container: 80, Protocol: protocol}
		spec := bench.Spec{
			Argv: []string{agent.Path, "hold"}, Network: "bridge", Reach: bench.ReachPublished, Ports: []bench.Port{port},
		}
		c := enginetest.Create(t, e, spec)
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pid, err := e.Pid(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Echo(t, pid, port)
		if got, err := e.Path(t.Context(), c, port); err != nil || !slices.Equal(got, want) {
			t.Errorf("Path by %s = %q, %v; want %q", protocol, got, err, want)
		}
	}
}
