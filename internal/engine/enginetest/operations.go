package enginetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// Each subtest in this file checks one capability, for engines that have it.

// "Freezes every process of a running container, and thaws them."
func pauses(t *testing.T, s *suite, e bench.Pauser) {
	x := s.ready(t, s.spec("tick"), "tick\n")
	for range 2 {
		err := pause(t, e, x)
		if errors.Is(err, bench.ErrUnsupported) {
			t.Skip(err) // rootless on version 1 has no freezer
		}
		if err != nil {
			t.Fatalf("Pause: %v", err)
		}
		if !s.outputStopped(x) {
			t.Error("what was paused goes on")
		}
		if err := e.Resume(t.Context(), x.Container); err != nil {
			t.Fatalf("Resume: %v", err)
		}
		x.requireOutput(t)
	}
	// "Whatever its state": one that is paused is removed too.
	if err := pause(t, e, x); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	s.remove(t, x)
}

// pause tries again for a while: with control groups of version 1, runc gives up where processes do not freeze soon,
// as on a machine with much else to do (libcontainer/cgroups/fs/freezer.go: "unable to freeze"). tare itself does not
// try again: that the engine fails now and then is something to know.
func pause(t *testing.T, e bench.Pauser, x *trial) (err error) {
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(time.Second) {
		if err = e.Pause(t.Context(), x.Container); err == nil || !strings.Contains(err.Error(), "unable to freeze") {
			break
		}
		t.Log(err)
	}
	return err
}

// outputStopped reports whether the container's output has stopped: nothing comes for 50 ms, in which task
// tick would print about 50 lines. Output that is still on its way when the container stops may
// arrive in the first seconds.
func (s *suite) outputStopped(x *trial) bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		before := len(x.stdout.String())
		time.Sleep(50 * time.Millisecond)
		if len(x.stdout.String()) == before {
			return true
		}
	}
	return false
}

// requireOutput checks that more output arrives.
func (x *trial) requireOutput(t *testing.T) {
	t.Helper()
	before := len(x.stdout.String())
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if len(x.stdout.String()) > before {
			return
		}
	}
	t.Fatal("what was resumed does not go on")
}

// "Runs one more process in a running container, as the container's user and
// in its environment."
func execs(t *testing.T, s *suite, e bench.Execer) {
	x := s.ready(t, s.spec("hold"), "ready\n")
	exec := func(stdout, stderr io.Writer, task ...string) bench.Exit {
		t.Helper()
		exit, err := e.Exec(t.Context(), x.Container, s.spec(task...).Argv, stdout, stderr)
		if errors.Is(err, bench.ErrUnsupported) {
			t.Skip(err) // a user namespace cannot be entered
		}
		if err != nil {
			t.Fatalf("Exec %q: %v", task, err)
		}
		return exit
	}
	out := newBuffer()
	if exit := exec(out, nil, "env"); exit != (bench.Exit{}) || !s.Simulated && !strings.Contains(out.String(), x.token) {
		t.Errorf("exec of env: %v, and an environment without %s: %.500q", exit, x.token, out.String())
	}
	for _, code := range []int{0, 3, 255} {
		if exit := exec(nil, nil, "exit", strconv.Itoa(code)); exit != (bench.Exit{Code: code}) {
			t.Errorf("exec of exit %d: %+v", code, exit)
		}
	}
	out = newBuffer()
	if exit := exec(out, nil, "print", "300000"); exit != (bench.Exit{}) || len(out.String()) != 300000 {
		t.Errorf("exec of print: %v with %d bytes of output, want 300000", exit, len(out.String()))
	}
	var both bytes.Buffer // which two at once would spoil
	if exit := exec(&both, &both, "print", "200000", "both"); exit != (bench.Exit{}) || both.Len() != 400000 {
		t.Errorf("exec of print to one writer: %v with %d bytes of output, want 400000", exit, both.Len())
	}
	missing := []string{"/no/such/program"}
	if exit, err := e.Exec(t.Context(), x.Container, missing, nil, nil); err == nil && exit.Code == 0 {
		t.Error("exec of a program that does not exist succeeds")
	}
	s.execCancelled(t, e, x)
	exec(nil, nil, "exit", "0") // the container is as usable as before
}

// "When ctx ends first, the container stays usable."
func (s *suite) execCancelled(t *testing.T, e bench.Execer, x *trial) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = e.Exec(ctx, x.Container, []string{agent.Path, "sleep", "1h"}, nil, nil)
	}()
	awaitEnd(t, "Exec", ended)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec = %v after its context ended, want context.DeadlineExceeded", err)
	}
}

// "Sends a signal to the first process of a running container."
func signals(t *testing.T, s *suite, e bench.Signaler) {
	s.ended(t, func(x *trial, kills bool) error {
		err := e.Signal(t.Context(), x.Container, syscall.SIGTERM)
		if kills {
			err = errors.Join(err, e.Signal(t.Context(), x.Container, syscall.SIGKILL))
		}
		return err
	})
}

// "SIGTERM to the first process, SIGKILL once grace … is over."
func stops(t *testing.T, s *suite, e bench.Stopper) {
	s.ended(t, func(x *trial, kills bool) error {
		grace := 30 * time.Second
		if kills {
			grace = time.Second
		}
		return e.Stop(t.Context(), x.Container, grace)
	})
}

// ended checks how containers end: one that heeds SIGTERM, and one that must be killed.
func (s *suite) ended(t *testing.T, end func(x *trial, kills bool) error) {
	t.Helper()
	for task, want := range map[string]int{"hold": 0, "stubborn": 137} {
		x := s.ready(t, s.spec(task), "ready\n")
		noError(t, end(x, want != 0))
		if exit := x.wait(t); exit.Code != want {
			t.Errorf("task %s: %v, want exit status %d", task, exit, want)
		}
	}
}

// "Writes the state of a running container to disk and ends its processes,
// and brings it back from there."
func checkpoints(t *testing.T, s *suite, e bench.Checkpointer) {
	if err := e.Checkpointable(t.Context()); err != nil {
		if !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("Checkpointable: %v, want an error that wraps bench.ErrUnsupported", err)
		}
		t.Skip(err)
	}
	x := s.ready(t, s.spec("tick"), "tick\n")
	if err := e.Checkpoint(t.Context(), x.Container); err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	if pids := x.processes(t); len(pids) > 0 {
		t.Errorf("after Checkpoint the processes %d run", pids)
	}
	if err := e.Restore(t.Context(), x.Container); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	if len(x.processes(t)) == 0 {
		t.Error("no process runs after Restore")
	}
}

// A sandbox and its container are made one after the other and go one after
// the other; removing the sandbox alone removes both.
func sandboxes(t *testing.T, s *suite, e bench.Sandboxer) {
	for _, last := range []string{"container", "sandbox"} {
		spec, token := s.prepared(t, s.spec("hold"))
		box, err := e.Sandbox(t.Context(), spec)
		if err != nil {
			t.Fatalf("Sandbox: %v", err)
		}
		t.Cleanup(func() {
			if err := box.Remove(context.Background()); err != nil {
				t.Errorf("Remove of the sandbox: %v", err)
			}
		})
		c, err := box.Create(t.Context())
		if err != nil {
			t.Fatalf("Create in the sandbox: %v", err)
		}
		x := s.adopt(t, c, spec, token)
		x.attach(t)
		x.start(t)
		noError(t, x.stdout.await(t.Context(), "ready\n"))
		if last == "sandbox" {
			s.remove(t, x)
			if err := box.Stop(t.Context()); err != nil {
				t.Errorf("Stop of the sandbox: %v", err)
			}
		}
		for range 2 {
			if err := box.Remove(context.Background()); err != nil {
				t.Errorf("Remove of the sandbox: %v", err)
			}
		}
		s.requireGone(t, x)
	}
}

// The daemons and the first process that the engine names are the host's.
func reportsProcesses(t *testing.T, s *suite, e bench.ProcessReporter) {
	x := s.ready(t, s.spec("hold"), "ready\n")
	pid, err := e.Pid(t.Context(), x.Container)
	if err != nil {
		t.Fatalf("Pid: %v", err)
	}
	if s.Simulated {
		return
	}
	if inside := x.processes(t); !slices.Contains(inside, pid) {
		t.Errorf("Pid = %d, want one of %d", pid, inside)
	}
	daemons, err := e.Daemons(t.Context())
	if err != nil {
		t.Fatalf("Daemons: %v", err)
	}
	for _, pid := range daemons {
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil || pid == os.Getpid() {
			t.Errorf("daemon %d is no process of the engine: %v", pid, err)
		}
	}
}

// The directories that the engine names are the host's, and none is below another.
func reportsDisk(t *testing.T, s *suite, e bench.DiskReporter) {
	noError(t, s.engine.Prepare(t.Context(), s.spec("exit", "0")))
	disk, err := e.Disk(t.Context())
	if err != nil {
		t.Fatalf("Disk: %v", err)
	}
	if len(disk.Dirs) == 0 || disk.Images == 0 {
		t.Errorf("Disk = %+v, though there is an image", disk)
	}
	for i, dir := range disk.Dirs {
		if !filepath.IsAbs(dir) {
			t.Errorf("%s is no absolute path", dir)
		}
		if info, err := os.Stat(dir); i == 0 && (err != nil || !info.IsDir()) {
			t.Errorf("%s is no directory: %v", dir, err)
		}
		for _, other := range disk.Dirs {
			if dir != other && strings.HasPrefix(dir+"/", other+"/") {
				t.Errorf("%s is below %s", dir, other)
			}
		}
	}
}
