package oci_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// fakeRuntime in the environment makes this test's own program a runtime that
// misbehaves in the way that its value says.
const fakeRuntime = "TARE_TEST_FAKE_RUNTIME"

func TestMain(m *testing.M) {
	if way := os.Getenv(fakeRuntime); way != "" {
		os.Exit(faultyRuntime(way, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// faultyRuntime is a runtime. It fails at what its way is about, and answers to
// everything else that all is well.
func faultyRuntime(way string, args []string) int {
	after := func(flag string) string { return args[slices.Index(args, flag)+1] }
	if slices.Contains(args, "--version") {
		return faultyVersion(way)
	}
	if deletion, ok := strings.CutPrefix(way, "deletes "); ok {
		return faultyDelete(deletion, args)
	}
	if !slices.Contains(args, "create") {
		return 0
	}
	switch way {
	case "hangs":
		time.Sleep(time.Hour)
	case "hangs in a child":
		child := exec.Command(os.Args[0], args...)
		child.Env = append(os.Environ(), fakeRuntime+"=hangs")
		_ = child.Run() // it is killed with this process
	case "prints garbage":
		fmt.Fprintln(os.Stderr, "one\ntwo\n\x1b[31mthree")
		return 7
	case "fails with a log":
		text := `{"level":"warning","msg":"careful"}` + "\n" + `{"level":"error","msg":"cannot do that"}` + "\n"
		if err := os.WriteFile(after("--log"), []byte(text), 0o600); err != nil {
			return 3
		}
		fmt.Fprintln(os.Stderr, "less exact")
		return 1
	case "has no process":
		return 0
	case "has a bad process":
		if err := os.WriteFile(after("--pid-file"), []byte("1\n"), 0o600); err != nil {
			return 3
		}
	}
	return 0
}

// faultyDelete is runc, but for its delete.
func faultyDelete(way string, args []string) int {
	if !slices.Contains(args, "delete") {
		path, err := exec.LookPath("runc")
		if err == nil {
			err = unix.Exec(path, append([]string{path}, args...), os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if way == "nothing" {
		return 0
	}
	fmt.Fprintln(os.Stderr, "cannot delete that")
	return 7
}

// A delete that fails, or that does nothing and says that all is well, is a failed
// operation. What is left is removed by the next call.
func TestDeleteErrors(t *testing.T) {
	for way, want := range map[string]string{
		"deletes nothing": "fake delete reported success but removed nothing: ",
		"deletes badly":   "exit status 7: cannot delete that",
	} {
		for _, task := range []string{"exit 0", "hold"} {
			t.Run(way+" "+task, func(t *testing.T) {
				_, err := exec.LookPath("runc")
				enginetest.Require(t, "runc", err)
				e, env := openWith(t, way, imagetest.Library(t))
				t.Cleanup(func() {
					if err := e.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				c := enginetest.Create(t, e, bench.Spec{Argv: append([]string{agent.Path}, strings.Fields(task)...)})
				if err := c.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if task != "hold" {
					if _, err := c.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				err = c.Remove(t.Context())
				if err == nil {
					err = e.Gone(t.Context(), c)
				}
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Remove and Gone: %v, want an error with %q", err, want)
				}
				if err := c.Remove(t.Context()); err != nil {
					t.Errorf("the second Remove: %v", err)
				}
				if err := e.Gone(t.Context(), c); err != nil {
					t.Errorf("Gone after the second Remove: %v", err)
				}
				if left, err := os.ReadDir(filepath.Join(env.Dir, "oci-fake", "state")); err != nil || len(left) > 0 {
					t.Errorf("left of the runtime's state: %v, %v", left, err)
				}
			})
		}
	}
}

func faultyVersion(way string) int {
	switch way {
	case "hangs at once":
		time.Sleep(time.Hour)
	case "says another version":
		fmt.Println("ls (GNU coreutils) 9.1")
	case "prints without end":
		for {
			if _, err := fmt.Println("more"); err != nil {
				return 1
			}
		}
	case "does not start":
		fmt.Fprintln(os.Stderr, "cannot load libseccomp.so.2")
		return 127
	}
	fmt.Println("fake version 1.0")
	return 0
}

// open returns an engine whose runtime is this test's program.
func open(t *testing.T, way string) (*oci.Engine, enginetest.Env) {
	t.Helper()
	return openWith(t, way, image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program"))))
}

func openWith(t *testing.T, way string, images *image.Library) (*oci.Engine, enginetest.Env) {
	t.Helper()
	t.Setenv(fakeRuntime, way)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := enginetest.NewEnv(t, images)
	return oci.New(oci.Config{Name: "fake", Binary: binary, Run: env.Run, Dir: env.Dir, Images: env.Images}), env
}

func TestProbeErrors(t *testing.T) {
	for way, want := range map[string]string{
		"hangs at once":        "context deadline exceeded",
		"says another version": "not the output of an OCI runtime",
		"prints without end":   "--version: ",
		"does not start":       "exit status 127: cannot load libseccomp.so.2",
	} {
		t.Run(way, func(t *testing.T) {
			e, _ := open(t, way)
			_, err := e.Probe(shortContext(t, way))
			needRoot(t, err)
			if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("Probe = %v, want an error with %q that is not conclusive", err, want)
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		_, err := oci.New(oci.Config{Name: "no-such-runtime"}).Probe(t.Context())
		if !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("Probe = %v, want bench.ErrUnsupported", err)
		}
	})
}

// shortContext returns a context that ends soon if that is what the test waits for.
func shortContext(t *testing.T, way string) context.Context {
	t.Helper()
	if !strings.HasPrefix(way, "hangs") {
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// needRoot skips where this driver cannot work at all.
func needRoot(t *testing.T, err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		enginetest.Require(t, "runc", err)
	}
}

// createAndAttach returns the first error. A runtime that says that all is well
// and made no process is found out by the second call.
func createAndAttach(t *testing.T, e *oci.Engine, way string) error {
	t.Helper()
	c, err := e.Create(shortContext(t, way), bench.Spec{})
	if err != nil {
		return err
	}
	err = c.Attach(t.Context(), nil, nil)
	if exit, werr := c.Wait(t.Context()); werr == nil {
		t.Errorf("Wait = %v for a process that was never made", exit)
	}
	if err := c.Remove(t.Context()); err == nil {
		t.Error("Remove succeeds, and the runtime has made nothing")
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Errorf("the second Remove: %v", err)
	}
	return err
}

func TestCreateErrors(t *testing.T) {
	for way, want := range map[string]string{
		"hangs":             "context deadline exceeded",
		"hangs in a child":  "context deadline exceeded",
		"prints garbage":    "exit status 7: [31mthree (+2 lines omitted)",
		"fails with a log":  "exit status 1: cannot do that (+1 lines omitted)",
		"has no process":    "no such file or directory",
		"has a bad process": `not a process ID: "1\n"`,
	} {
		t.Run(way, func(t *testing.T) {
			e, env := open(t, way)
			err := e.Prepare(t.Context(), bench.Spec{})
			needRoot(t, err)
			if err == nil {
				err = createAndAttach(t, e, way)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Create = %v, want an error with %q", err, want)
			}
			if err := e.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
			noChildren(t)
			if left, err := os.ReadDir(env.Dir); err != nil || len(left) > 0 {
				t.Errorf("left in the run's directory: %v, %v", left, err)
			}
		})
	}
}

// noChildren wants no process to be left of which this one is the parent, not
// even one that has ended and was not waited for. Who waits for them may do so
// a moment later than this looks.
func noChildren(t *testing.T) {
	t.Helper()
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if err = unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); errors.Is(err, unix.ECHILD) {
			return
		}
	}
	t.Errorf("a process is left (%v): %s", err, children())
}

// "Whatever its state": even one that the runtime cannot read any more.
func TestRemoveWithoutTheRuntimesState(t *testing.T) {
	for _, name := range []string{"runc", "crun"} {
		for _, how := range []string{"lost", "corrupt"} {
			t.Run(name+" "+how, func(t *testing.T) { removeWithoutState(t, name, how) })
		}
	}
}

func removeWithoutState(t *testing.T, name, how string) {
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := oci.New(oci.Config{Name: name, Run: env.Run, Dir: env.Dir, Images: env.Images})
	_, err := e.Probe(t.Context())
	enginetest.Require(t, name, err)
	c, err := e.Create(t.Context(), bench.Spec{Argv: []string{agent.Path, "stubborn"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	corruptState(t, filepath.Join(env.Dir, "oci-"+name, "state", c.ID()), how)
	first := c.Remove(t.Context())
	if first == nil && how == "lost" {
		t.Error("Remove succeeds, and the runtime knows nothing of the container")
	}
	for range 2 {
		if err := c.Remove(t.Context()); err != nil {
			t.Errorf("Remove after %v: %v", first, err)
		}
	}
	noChildren(t)
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/tare/" + env.Run)
	if err != nil || len(groups) > 0 {
		t.Errorf("cgroups are left: %q, %v", groups, err)
	}
}

// corruptState removes a runtime's state of a container, or what is in its files.
func corruptState(t *testing.T, dir, how string) {
	t.Helper()
	if how == "lost" {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			if err := os.WriteFile(filepath.Join(dir, entry.Name()), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// children describes the processes of which this one is the parent.
func children() string {
	var all []string
	tasks, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is right
	for _, name := range tasks {
		pids, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err == nil {
				all = append(all, strings.Join(strings.Fields(string(stat))[:6], " "))
			}
		}
	}
	return strings.Join(all, "; ")
}
