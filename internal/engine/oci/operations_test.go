package oci_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// holding starts a container that waits to be killed.
func holding(t *testing.T, runtime string, spec bench.Spec) (*oci.Engine, bench.Container, enginetest.Env) {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := oci.New(oci.Config{Name: runtime, Run: env.Run, Dir: env.Dir, Images: env.Images})
	enginetest.Use(t, e)
	spec.Argv = []string{agent.Path, "hold"}
	c := enginetest.Create(t, e, spec)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, c, env
}

// runtimes runs a test for each.
func runtimes(t *testing.T, test func(t *testing.T, runtime string)) {
	for _, runtime := range []string{"runc", "crun", "youki", "runsc"} {
		t.Run(runtime, func(t *testing.T) { test(t, runtime) })
	}
}

// What Exec has started ends with its context, whenever that is, and nothing
// keeps the container from being removed.
func TestExecEndsInside(t *testing.T) {
	runtimes(t, func(t *testing.T, runtime string) {
		e, c, env := holding(t, runtime, bench.Spec{})
		longer := time.Duration(2)
		if testing.Short() {
			longer = 4
		}
		for after := time.Millisecond; after < time.Second; after *= longer {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := e.Exec(ctx, c, []string{agent.Path, "stubborn"}, nil, nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: Exec = %v, want context.DeadlineExceeded", after, err)
			}
			if n := inside(t, runtime, env, c); n != 1 {
				t.Fatalf("after %v: %d processes inside, want the first alone", after, n)
			}
		}
	})
}

// inside counts the processes of a container.
func inside(t *testing.T, runtime string, env enginetest.Env, c bench.Container) int {
	t.Helper()
	if runtime == "runsc" {
		state := filepath.Join(env.Dir, "oci-runsc", "state")
		out, err := exec.CommandContext(t.Context(), "runsc", "--root", state, "ps", "--format", "json", c.ID()).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(out), ",") + 1
	}
	h, err := cgroup.Detect("/")
	if err != nil {
		t.Fatal(err)
	}
	number := c.ID()[strings.LastIndex(c.ID(), "-"):]
	pids, err := h.Procs("/tare/" + env.Run + "/" + runtime + number)
	if err != nil {
		t.Fatal(err)
	}
	return len(pids)
}

// What Exec runs has what the container's first process has.
func TestExecIsAsTheFirst(t *testing.T) {
	runtimes(t, func(t *testing.T, runtime string) {
		e, c, _ := holding(t, runtime,
			bench.Spec{Dir: "/proc", Env: []string{"A=b"}, Security: bench.Security{NoNewPrivileges: true}})
		for task, want := range map[string][]string{
			"facts":                 {`"cwd":"/proc"`, `"no_new_privs":true`, `"uid":0`},
			"env":                   {"A=b\n", "PATH="},
			"cat /proc/self/status": {"CapEff:\t00000000a80425fb\n"},
		} {
			var out, errOut bytes.Buffer
			exit, err := e.Exec(t.Context(), c, append([]string{agent.Path}, strings.Fields(task)...), &out, &errOut)
			if err != nil || exit.Code != 0 {
				t.Fatalf("%s: %v, %v (%s)", task, exit, err, &errOut)
			}
			for _, w := range want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("%s: %q is not in %.2000q", task, w, out.String())
				}
			}
		}
	})
}

// A status is the process's own; the runtime's failures are errors.
func TestExecFailures(t *testing.T) {
	runtimes(t, func(t *testing.T, runtime string) {
		e, c, _ := holding(t, runtime, bench.Spec{})
		for _, code := range []string{"1", "127", "128", "255"} {
			if exit, err := e.Exec(t.Context(), c, []string{agent.Path, "exit", code}, nil, nil); err != nil ||
				exit.String() != "exit status "+code {
				t.Errorf("exit %s: %v, %v", code, exit, err)
			}
		}
		if exit, err := e.Exec(t.Context(), c, []string{"/no/such/program"}, nil, nil); err == nil {
			t.Errorf("a program that does not exist: %v, want an error", exit)
		} else if text := err.Error(); !strings.Contains(text, "no such file") && !strings.Contains(text, "No such file") &&
			!strings.Contains(text, "/no/such/program") {
			t.Errorf("a program that does not exist: %v, want the reason", err)
		}
	})
}
