package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A daemon is a containerd of a test's own.
type daemon struct {
	dir string
	cmd *exec.Cmd
}

// newDaemon starts a containerd without Kubernetes' part.
func newDaemon(t *testing.T) *daemon {
	t.Helper()
	_, err := exec.LookPath("containerd")
	if err == nil && os.Geteuid() != 0 {
		err = errors.New("it needs root")
	}
	enginetest.Require(t, "containerd", err)
	dir, err := os.MkdirTemp("", "ctd-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: dir}
	t.Cleanup(func() {
		d.kill(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	config := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]
[grpc]
  address = "%[1]s/socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
`, dir)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t)
	return d
}

func (d *daemon) address() string { return filepath.Join(d.dir, "socket") }

// start starts the daemon and waits until it answers.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	d.cmd = exec.Command("containerd", "--config", filepath.Join(d.dir, "config.toml"))
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := containerd.New(containerd.Config{Name: "containerd", Address: d.address()}).Probe(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// kill ends the daemon, as a crash does. What it runs goes on.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill() // it may have ended
	_ = d.cmd.Wait()         // it was killed
	d.cmd = nil
}

func (d *daemon) engine(t *testing.T, s enginetest.Env) *containerd.Engine {
	t.Helper()
	return containerd.New(containerd.Config{
		Name: "containerd", Run: s.Run, Dir: s.Dir, Images: s.Images, Address: d.address(),
	})
}

// created prepares and creates a container of one of the agent's tasks.
func created(t *testing.T, e bench.Engine, task ...string) bench.Container {
	t.Helper()
	spec := bench.Spec{Argv: append([]string{agent.Path}, task...)}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// limited is a context that ends a test which hangs.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// nothing wants no leftover of a run.
func nothing(t *testing.T, e *containerd.Engine, run string) {
	t.Helper()
	left, err := e.Leftovers(t.Context(), func(r string) bool { return r == run })
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		t.Errorf("left: %s %s", l.Kind, l.ID)
	}
}

// alive reports whether a process runs; one that nobody has waited for does not.
func alive(pid int) bool {
	p, err := proc.Find("/", pid)
	return err == nil && p.State != 'Z'
}

// A shim that is killed takes the news of its container with it: Wait says so,
// Remove fails, and the next one removes what containerd has not.
func TestShimKilled(t *testing.T) {
	d := newDaemon(t)
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := d.engine(t, env)
	c := created(t, e, "hold")
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid, err := e.Pid(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := proc.Find("/", pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(inside.Parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(limited(t)); err == nil && exit.Code != 137 {
		t.Errorf("Wait = %v after the shim was killed, want an error or status 137", exit)
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Error("Wait has not returned after the shim was killed")
	}
	if err := c.Remove(limited(t)); err == nil {
		t.Error("Remove succeeds without a shim")
	}
	for range 2 {
		if err := c.Remove(limited(t)); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if alive(pid) {
		t.Error("the process inside runs on after Remove")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	nothing(t, e, env.Run)
}

// A containerd that is restarted while a container is under way is an error of
// the trial; Remove removes the container once containerd is back.
func TestDaemonRestarted(t *testing.T) {
	d := newDaemon(t)
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := d.engine(t, env)
	c := created(t, e, "hold")
	if err := e.Restart(t.Context()); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Restart of a containerd that systemd does not run = %v, want bench.ErrUnsupported", err)
	}
	d.kill(t)
	if err := c.Start(limited(t)); err == nil {
		t.Error("Start succeeds without a containerd")
	}
	if _, err := c.Wait(limited(t)); err == nil {
		t.Error("Wait succeeds without a containerd")
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Remove(soon); err == nil {
		t.Error("Remove succeeds without a containerd")
	}
	d.start(t)
	if err := c.Remove(limited(t)); err != nil {
		t.Errorf("Remove after containerd came back: %v", err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	nothing(t, e, env.Run)
}

// What a dead run left is found by another one, also after containerd was
// restarted meanwhile, and a paused container is no exception.
func TestLeftoversAfterRestart(t *testing.T) {
	d := newDaemon(t)
	images := imagetest.Library(t)
	dead := enginetest.NewEnv(t, images)
	e := d.engine(t, dead)
	c := created(t, e, "hold")
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid, err := e.Pid(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Pause(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d.kill(t)
	d.start(t)
	other := d.engine(t, enginetest.NewEnv(t, images))
	left, err := other.Leftovers(t.Context(), func(run string) bool { return run == dead.Run })
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, l := range left {
		kinds[l.Kind]++
		if err := other.RemoveLeftover(limited(t), l); err != nil {
			t.Errorf("RemoveLeftover(%+v): %v", l, err)
		}
	}
	if kinds["container"] != 1 || kinds["image"] != 1 {
		t.Errorf("Leftovers = %+v, want one container and one image", left)
	}
	nothing(t, other, dead.Run)
	if alive(pid) {
		t.Error("the process inside runs on after it was removed")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A leftover is removed only if it still carries its run's label.
func TestLeftoverOfAnother(t *testing.T) {
	d := newDaemon(t)
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := d.engine(t, env)
	c := created(t, e, "hold")
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == env.Run })
	if err != nil || len(left) == 0 {
		t.Fatalf("Leftovers = %v, %v", left, err)
	}
	for _, l := range left {
		if l.Kind == "cgroup" {
			continue // its name is the run's
		}
		l.Run = "another"
		if err := e.RemoveLeftover(t.Context(), l); err == nil {
			t.Errorf("removed %s %s of run %s in the name of run %s", l.Kind, l.ID, env.Run, l.Run)
		}
	}
	for _, kind := range []string{"container", "snapshot", "cgroup", "else"} {
		l := bench.Leftover{Run: env.Run, Engine: "containerd", Kind: kind, ID: "../no-such/thing"}
		if err := e.RemoveLeftover(t.Context(), l); err == nil {
			t.Errorf("RemoveLeftover(%+v) succeeds", l)
		}
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A missing containerd is told from one that does not answer.
func TestUnreachable(t *testing.T) {
	dir, err := os.MkdirTemp("", "ctd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover in the temporary directory
	socket := filepath.Join(dir, "socket")
	e := containerd.New(containerd.Config{Name: "containerd", Run: "test", Dir: dir, Address: socket})
	for _, call := range []func() error{
		func() error { _, err := e.Probe(t.Context()); return err },
		func() error { return e.Prepare(t.Context(), bench.Spec{}) },
		func() error { _, err := e.Create(t.Context(), bench.Spec{}); return err },
	} {
		if err := call(); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "start it with") {
			t.Errorf("without a socket: %v, want bench.ErrUnsupported and what to do", err)
		}
	}
	if os.Geteuid() != 0 {
		return // an ordinary user is refused before anything is asked
	}
	l, err := net.Listen("unix", socket) // nobody ever accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing was sent
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := e.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Probe of a socket that does not answer = %v, want context.DeadlineExceeded", err)
	}
}
