package native_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/shm"
)

// A cluster is a PostgreSQL of this host whose servers are started by the launcher.
type cluster struct {
	env      enginetest.Env
	engine   *native.Engine
	bin      string // directory of its programs
	agent    string
	user     string // who is no root
	template string
}

// ownUser is the user of these servers alone, if the test may choose one.
const ownUser = 54399

// newCluster makes a database, or skips the test where PostgreSQL is not installed.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // well-formed
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	c := &cluster{env: enginetest.NewEnv(t, imagetest.Library(t)), bin: filepath.Dir(found[len(found)-1])}
	maker := ""
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres") // initdb wants a user with a name
		if err != nil {
			t.Skip(err)
		}
		maker, c.user = u.Uid+":"+u.Gid, fmt.Sprintf("%d:%d", ownUser, ownUser)
	}
	c.engine = open(t, c.env).(*native.Engine)
	enginetest.Use(t, c.engine)
	var err error
	if c.agent, err = c.env.Images.WriteAgent(c.env.Dir); err != nil {
		t.Fatal(err)
	}
	c.template = filepath.Join(c.env.Dir, "template")
	l := agent.Launch{Target: c.template, User: maker}
	spec := c.spec(l, "initdb", "-D", c.template, "--no-sync", "--locale=C", "--username=postgres", "--auth=trust")
	x := enginetest.Create(t, c.engine, spec)
	var out bytes.Buffer
	if err := errors.Join(x.Attach(t.Context(), &out, &out), x.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if exit, err := x.Wait(t.Context()); err != nil || exit != (bench.Exit{}) {
		t.Fatalf("initdb: %v, %v: %s", exit, err, out.Bytes())
	}
	return c
}

func (c *cluster) spec(l agent.Launch, program string, args ...string) bench.Spec {
	return bench.Spec{
		Image: "host:" + c.bin + "/postgres", Storage: "bind", Dir: "/",
		Argv: l.Argv(c.agent, append([]string{c.bin + "/" + program}, args...)...),
	}
}

// A server runs in a directory of data.
type server struct {
	bench.Container
	pid    int // of its first process
	dir    string
	memory []shm.Object
}

// serve starts a server with an engine, and waits until it is ready.
func (c *cluster) serve(t *testing.T, e *native.Engine) *server {
	t.Helper()
	dir, err := e.DataDir(bench.Spec{Storage: "bind"})
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "db")
	l := agent.Launch{Template: c.template, Target: data, User: c.user}
	spec := c.spec(l, "postgres", "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+data)
	s := &server{Container: enginetest.Create(t, e, spec), dir: dir}
	var log bytes.Buffer
	if err := errors.Join(s.Attach(t.Context(), nil, &log), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if s.pid, err = e.Pid(t.Context(), s.Container); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(data, "postmaster.pid")) // not there yet
		if lines := strings.Split(string(text), "\n"); len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server does not become ready")
		}
	}
	pids, err := proc.Descendants("/", s.pid)
	if err == nil {
		s.memory, err = shm.Of(pids...)
	}
	if err != nil || len(pids) < 3 || len(s.memory) < 2 {
		t.Fatalf("the server has processes %v and shared memory %v, %v; the test needs some", pids, s.memory, err)
	}
	return s
}

// gone checks that nothing of the server is left.
func (s *server) gone(t *testing.T) {
	t.Helper()
	for _, o := range s.memory {
		if o.Exists() {
			t.Errorf("left: %v", o)
		}
	}
	for _, what := range madeBy(t, ownUser) {
		t.Errorf("left: %s", what)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("left: %s (%v)", s.dir, err)
	}
	all, err := proc.All("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		at, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "cwd")) // it may have ended
		if strings.HasPrefix(at, s.dir) {
			t.Errorf("left: process %d in %s", p.PID, at)
		}
	}
}

// madeBy lists the shared memory that a user has made.
func madeBy(t *testing.T, uid int) (found []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 9 && f[9] == strconv.Itoa(uid) {
			found = append(found, "segment "+f[1])
		}
	}
	files, err := os.ReadDir(shm.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(uid) {
			found = append(found, f.Name())
		}
	}
	return found
}

// However a server ends, its container's removal leaves nothing of it on the host.
func TestKilledServer(t *testing.T) {
	c := newCluster(t)
	for name, end := range map[string]func(t *testing.T, s *server) error{
		"stopped":    func(_ *testing.T, s *server) error { return syscall.Kill(s.pid, syscall.SIGINT) },
		"running":    func(*testing.T, *server) error { return nil },
		"killed":     killed,
		"one killed": oneKilled,
	} {
		t.Run(name, func(t *testing.T) {
			// What it does at its end, or to start anew, is cut off at different moments.
			for _, wait := range waits() {
				s := c.serve(t, c.engine)
				if _, err := s.Inspect(t.Context()); err != nil {
					t.Error(err)
				}
				if err := end(t, s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(wait)
				if err := s.Remove(t.Context()); err != nil {
					t.Errorf("Remove: %v", err)
				}
				s.gone(t)
			}
		})
	}
}

func waits() []time.Duration {
	if testing.Short() {
		return []time.Duration{20 * time.Millisecond}
	}
	return []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond}
}

func killed(t *testing.T, s *server) error {
	t.Helper()
	err := syscall.Kill(s.pid, syscall.SIGKILL)
	_, waited := s.Wait(t.Context())
	return errors.Join(err, waited)
}

// oneKilled kills a process that the server has started: the server then starts all of them anew.
func oneKilled(t *testing.T, s *server) error {
	t.Helper()
	pids, err := proc.Descendants("/", s.pid)
	if err != nil {
		return err
	}
	return syscall.Kill(slices.Max(pids), syscall.SIGKILL)
}

// When tare is killed, its servers run on, or are killed too: clean finds what there is of them.
func TestKilledRun(t *testing.T) {
	c := newCluster(t)
	for name, end := range map[string]func(t *testing.T, s *server) error{
		"the server runs on":       func(*testing.T, *server) error { return nil },
		"the server is killed too": killed,
	} {
		t.Run(name, func(t *testing.T) {
			dead := enginetest.NewEnv(t, c.env.Images)
			e := open(t, dead).(*native.Engine)
			enginetest.Use(t, e)
			s := c.serve(t, e)
			if _, err := s.Inspect(t.Context()); err != nil { // as a workload does once the server is ready
				t.Error(err)
			}
			if err := end(t, s); err != nil {
				t.Fatal(err)
			}
			next := enginetest.Env{Run: "next", Dir: filepath.Join(filepath.Dir(dead.Dir), "next"), Images: c.env.Images}
			cleans(t, open(t, next).(*native.Engine), dead.Run)
			s.gone(t)
			// Nothing of the record is left either.
			if left, err := os.ReadDir(filepath.Join(dead.Dir, "data-native")); !os.IsNotExist(err) {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// cleans removes what a dead run has left.
func cleans(t *testing.T, e *native.Engine, run string) {
	t.Helper()
	left, err := e.Leftovers(t.Context(), func(r string) bool { return r == run })
	if err != nil || len(left) == 0 {
		t.Fatalf("Leftovers = %v, %v; want some", left, err)
	}
	for _, l := range left {
		if err := e.RemoveLeftover(t.Context(), l); err != nil {
			t.Errorf("RemoveLeftover %v: %v", l, err)
		}
	}
	if left, err := e.Leftovers(t.Context(), func(r string) bool { return r == run }); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Somebody who looks around in the directory of data is not killed.
func TestVisitorLives(t *testing.T) {
	e := open(t, enginetest.NewEnv(t, imagetest.Library(t))).(*native.Engine)
	enginetest.Use(t, e)
	dir, err := e.DataDir(bench.Spec{Storage: "bind"})
	if err != nil {
		t.Fatal(err)
	}
	x := enginetest.Create(t, e, bench.Spec{Argv: []string{"/bin/sh", "-c", "cd " + dir + "; exec sleep 1000"}})
	if err := x.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	visitor, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 1000; true"}, &os.ProcAttr{Dir: dir, Env: []string{"A=b"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = visitor.Kill()    // it may have been killed
		_, _ = visitor.Wait() // the same
	})
	if err := x.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if p, err := proc.Find("/", visitor.Pid); err != nil || p.State == 'Z' {
		t.Errorf("the visitor's process was killed: %c, %v", p.State, err)
	}
}

// An image whose own command is a script that is only in the image can be prepared: a workload starts another program of
// it. By itself it does not run as a plain process.
func TestPrepareForAnotherProgram(t *testing.T) {
	c := newCluster(t)
	spec := bench.Spec{Image: "host:" + c.bin + "/postgres"}
	if err := c.engine.Prepare(t.Context(), spec); err != nil {
		t.Error(err)
	}
	if _, err := c.engine.Create(t.Context(), spec); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create = %v, want fs.ErrNotExist", err)
	}
}
