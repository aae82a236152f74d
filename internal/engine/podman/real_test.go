package podman_test

import (
	"context"
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
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// openReal returns an engine with a service of its own in dir.
func openReal(t *testing.T, dir string) (*podman.Engine, enginetest.Env) {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	if dir == "" {
		dir = env.Dir
	}
	e := podman.New(podman.Config{Name: "podman", Run: env.Run, Dir: dir, Images: env.Images})
	enginetest.Use(t, e)
	return e, env
}

// runContainer takes a container through its life.
func runContainer(t *testing.T, e *podman.Engine, spec bench.Spec, during func(c bench.Container)) {
	t.Helper()
	runAndRemove(t, e, spec, bench.Container.Remove, during)
}

func runAndRemove(t *testing.T, e *podman.Engine, spec bench.Spec, remove func(
	bench.Container, context.Context,
) error, during func(c bench.Container),
) {
	t.Helper()
	ctx := t.Context()
	if err := e.Prepare(ctx, spec); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := remove(c, context.Background()); err != nil {
			t.Error(err)
		}
	}()
	applied, err := c.Inspect(ctx)
	if err := errors.Join(err, bench.Attest(spec, applied), c.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	during(c)
}

// Each runtime that is installed makes the containers that ask for it, side by
// side.
func TestRuntimes(t *testing.T) {
	e, env := openReal(t, "")
	for _, runtime := range []string{"crun", "runc"} {
		_, err := exec.LookPath(runtime)
		enginetest.Require(t, runtime, err)
		spec := bench.Spec{Argv: []string{agent.Path, "exit", "3"}, Runtime: runtime}
		runContainer(t, e, spec, func(c bench.Container) {
			if exit, err := c.Wait(t.Context()); err != nil || exit.Code != 3 {
				t.Errorf("%s: Wait = %v, %v", runtime, exit, err)
			}
		})
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := services(t, env.Run); len(left) > 0 {
		t.Errorf("services are left: %q", left)
	}
}

func daemons(t *testing.T, e *podman.Engine) []int {
	t.Helper()
	pids, err := e.Daemons(t.Context())
	if err != nil || len(pids) == 0 {
		t.Fatalf("Daemons = %d, %v", pids, err)
	}
	return pids
}

// services lists the command lines of a run's services.
func services(t *testing.T, run string) []string {
	t.Helper()
	all, err := proc.All("/")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range all {
		if line := commandLine(p.PID); strings.Contains(line, "system service") && strings.Contains(line, run) {
			found = append(found, line)
		}
	}
	return found
}

func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone meanwhile
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// A directory whose path is too long for a socket is none of the user's
// business; and a service that dies takes no container with it.
func TestServiceThatDies(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	e, env := openReal(t, long)
	remove := func(c bench.Container, ctx context.Context) error {
		if err := c.Remove(ctx); err == nil {
			t.Error("Remove succeeds, and there is no service")
		}
		return c.Remove(ctx) // with another service
	}
	runAndRemove(t, e, bench.Spec{Argv: []string{agent.Path, "hold"}}, remove, func(bench.Container) {
		left, err := e.Leftovers(t.Context(), func(run string) bool { return run == env.Run })
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]int{}
		for _, l := range left {
			kinds[l.Kind]++
			if l.Kind == "process" || l.Kind == "directory" {
				if err := e.RemoveLeftover(t.Context(), l); err != nil {
					t.Error(err)
				}
			}
		}
		if kinds["process"] == 0 || kinds["directory"] != 1 || kinds["container"] != 1 || kinds["image"] != 1 {
			t.Errorf("Leftovers: %v", left)
		}
		if left := services(t, env.Run); len(left) > 0 {
			t.Errorf("services are left: %q", left)
		}
	})
	for _, pid := range daemons(t, e) { // Close works too
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "tare-"+env.Run+"-*")); err != nil || len(dirs) > 0 {
		t.Errorf("left: %q, %v", dirs, err)
	}
}

// Who cleans up after dead runs has no directory, and closes nothing.
func TestLeftoversAlone(t *testing.T) {
	e, env := openReal(t, filepath.Join(t.TempDir(), "none"))
	if left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "no-such-run" }); err != nil ||
		len(left) > 0 {
		t.Errorf("Leftovers = %v, %v", left, err)
	}
	image := bench.Leftover{
		Run: "no-such-run", Engine: "podman", Kind: "image", ID: "tare.local/no-such-run/podman/agent:latest",
	}
	if err := e.RemoveLeftover(t.Context(), image); err != nil {
		t.Error(err)
	}
	if left := services(t, env.Run); len(left) > 0 {
		t.Errorf("services are left: %q", left)
	}
	if dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "tare-"+env.Run+"-*")); err != nil || len(dirs) > 0 {
		t.Errorf("left: %q, %v", dirs, err)
	}
}

// A restarted service knows the containers that run.
func TestRestart(t *testing.T) {
	e, env := openReal(t, "")
	runContainer(t, e, bench.Spec{Argv: []string{agent.Path, "hold"}}, func(c bench.Container) {
		before := daemons(t, e)
		if err := e.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := daemons(t, e); slices.Equal(before, after) {
			t.Errorf("Daemons = %d, then %d", before, after)
		}
		// The program may not wait for SIGTERM yet.
		if err := e.Signal(t.Context(), c, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if exit, err := c.Wait(t.Context()); err != nil || exit.Code != 128+int(syscall.SIGKILL) {
			t.Errorf("Wait = %v, %v", exit, err)
		}
	})
	if n := len(services(t, env.Run)); n == 0 {
		t.Error("the restarted service cannot be found by the run's ID")
	}
}

// The monitors of further processes do not stay longer than the container.
func TestMonitorsAreTidied(t *testing.T) {
	e, _ := openReal(t, "")
	var id string
	spec := bench.Spec{Argv: []string{agent.Path, "hold"}}
	runContainer(t, e, spec, func(c bench.Container) {
		id = c.ID()
		if _, err := e.Exec(t.Context(), c, []string{agent.Path, "exit", "0"}, nil, nil); err != nil {
			t.Error(err)
		}
		if pid, err := e.Pid(t.Context(), c); err != nil || pid <= 0 {
			t.Errorf("Pid = %d, %v", pid, err)
		}
	})
	if len(monitors(t, id)) == 0 {
		t.Log("this Podman leaves none")
	}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); len(monitors(t, id)) > 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute { // a signal takes its time
			t.Fatalf("left after the next Prepare: processes %d", monitors(t, id))
		}
	}
}

// monitors lists the processes of conmon for further processes in a container.
func monitors(t *testing.T, id string) []int {
	t.Helper()
	all, err := proc.All("/")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, p := range all {
		if line := commandLine(p.PID); strings.Contains(line, "conmon") && strings.Contains(line, " -e ") &&
			strings.Contains(line, id) {
			found = append(found, p.PID)
		}
	}
	return found
}

// The pod of a project, as newer versions of podman-compose make it, is found and removed.
func TestPodOfProject(t *testing.T) {
	e, env := openReal(t, "")
	if err := e.Prepare(t.Context(), bench.Spec{}); err != nil {
		t.Fatal(err)
	}
	project := bench.ProjectName(env.Run, "0f")
	for name, remove := range map[string]func(l bench.Leftover) error{
		"by clean":     func(l bench.Leftover) error { return e.RemoveLeftover(t.Context(), l) },
		"by the trial": func(bench.Leftover) error { return e.RemoveProject(t.Context(), project) },
	} {
		out, err := exec.Command("podman", "pod", "create", "--infra=false", "--name", "pod_"+project).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pods := func() []bench.Leftover {
			all, err := e.Leftovers(t.Context(), func(run string) bool { return run == env.Run })
			if err != nil {
				t.Fatal(err)
			}
			return slices.DeleteFunc(all, func(l bench.Leftover) bool { return l.Kind != "pod" })
		}
		found := pods()
		if len(found) != 1 {
			t.Fatalf("%s: found %v, want the pod", name, found)
		}
		if err := remove(found[0]); err != nil || len(pods()) > 0 {
			t.Errorf("%s: %v; left: %v", name, err, pods())
		}
	}
}
