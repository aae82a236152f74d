package floor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// holding starts a container that waits to be killed. Only root's can be entered.
func holding(t *testing.T, spec bench.Spec) (*floor.Engine, bench.Container) {
	t.Helper()
	require(t)
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user's containers have a user namespace, which cannot be entered")
	}
	e := opened(t, enginetest.NewEnv(t, imagetest.Library(t)))
	spec.Argv = []string{agent.Path, "hold"}
	c := enginetest.Create(t, e, spec)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, c
}

// What Exec runs is inside, and as confined as the first process.
func TestExecIsInside(t *testing.T) {
	e, c := holding(t,
		bench.Spec{Dir: "/proc", Env: []string{"A=b"}, Security: bench.Security{NoNewPrivileges: true, ReadOnly: true}})
	for task, want := range map[string][]string{
		"facts":                         {`"cwd":"/proc"`, `"interfaces":["lo"]`, `"root_writable":false`},
		"cat /proc/sys/kernel/hostname": {c.ID() + "\n"},
		"env":                           {"A=b\n"},
		"cat /proc/self/status":         {"CapEff:\t00000000a80425fb\n", "CapBnd:\t00000000a80425fb\n", "NoNewPrivs:\t1\n"},
		"cat /proc/self/cgroup":         {"memory:/\n"},
	} {
		var out, errOut bytes.Buffer
		exit, err := e.Exec(t.Context(), c, append([]string{agent.Path}, strings.Fields(task)...), &out, &errOut)
		if err != nil || exit.Code != 0 {
			t.Fatalf("%s: %v, %v (%s)", task, exit, err, &errOut)
		}
		for _, w := range want {
			if strings.HasPrefix(w, "memory:") && !strings.Contains(out.String(), "memory:") {
				w = "/" + c.ID() + "\n" // version 2: by tare's own cgroup namespace
			}
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: %q is not in %.2000q", task, w, out.String())
			}
		}
	}
}

// The threads that entered the container are gone: none may do tare's own work
// there.
func TestExecLeavesTareOutside(t *testing.T) {
	e, c := holding(t, bench.Spec{})
	for range 30 {
		if _, err := e.Exec(t.Context(), c, []string{agent.Path, "exit", "0"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Exec(t.Context(), c, []string{"/no/such/program"}, nil, nil); err == nil {
		t.Error("a program that does not exist is executed")
	}
	var inside []string
	for range 1000 {
		if inside = strangers(t); len(inside) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("threads are in other namespaces than tare: %q", inside)
}

// strangers lists the threads of this process that are in another mount
// namespace or another cgroup than the main one.
func strangers(t *testing.T) []string {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	of := func(dir string) string {
		space, err := os.Readlink(dir + "/ns/mnt")
		group, err2 := os.ReadFile(dir + "/cgroup")
		if err != nil || err2 != nil {
			return "" // it has ended
		}
		return space + string(group)
	}
	own := of("/proc/self")
	var found []string
	for _, dir := range threads {
		if theirs := of(dir); theirs != "" && theirs != own {
			found = append(found, dir)
		}
	}
	return found
}
