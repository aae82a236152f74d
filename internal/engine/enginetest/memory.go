package enginetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// factsOf runs the agent's facts to the end in a container, and returns the container too.
func (s *suite) factsOf(t *testing.T, spec bench.Spec) (*trial, agent.Facts) {
	t.Helper()
	spec.Argv = []string{agent.Path, "facts"}
	x, exit := s.run(t, spec)
	if exit != (bench.Exit{}) {
		t.Fatalf("facts: %v (stderr: %.300q)", exit, x.stderr.String())
	}
	var f agent.Facts
	noError(t, json.Unmarshal([]byte(x.stdout.String()), &f))
	return x, f
}

// shmSize checks that /dev/shm has the size that was asked for: for the process inside, and in
// Inspect before and after the start.
func shmSize(t *testing.T, s *suite, spec bench.Spec) {
	x, inside := s.factsOf(t, spec)
	if x.applied.Shm != spec.Shm || inside.Shm < spec.Shm || inside.Shm >= spec.Shm+int64(os.Getpagesize()) {
		t.Errorf("/dev/shm has %d bytes inside, and %d as Inspect says; want %d", inside.Shm, x.applied.Shm, spec.Shm)
	}
	s.shmRuns(t, spec, spec.Shm)
}

// shmDefault checks that the engine's own size is read back.
func shmDefault(t *testing.T, s *suite) {
	if s.Remote || s.Sandboxed { // read from a specification, which need not say a size
		return
	}
	s.shmRuns(t, s.spec("hold"), s.plainFacts(t).Shm)
}

// shmRuns checks what Inspect says of a running container.
func (s *suite) shmRuns(t *testing.T, spec bench.Spec, want int64) {
	t.Helper()
	x := s.ready(t, spec, "ready\n")
	if got, err := x.Inspect(t.Context()); err != nil || got.Shm != want {
		t.Errorf("Inspect says that /dev/shm has %d bytes, %v; want %d, as inside", got.Shm, err, want)
	}
}

// processFacts checks that the kernel is asked about the right process.
func processFacts(t *testing.T, s *suite) {
	if _, ok := bench.As[bench.ProcessReporter](s.engine); !ok || s.Sandboxed {
		return
	}
	x := s.ready(t, s.spec("hold"), "ready\n")
	inside := s.plainFacts(t)
	got := readback.Facts(x.pid(t))
	if got == nil {
		t.Fatal("nothing is known about the first process")
	}
	if !x.applied.Security.UserNS && got.UID != inside.UID || got.Files != inside.Files || got.OOM != inside.OOM {
		t.Errorf("the first process has %+v; another one in the same place finds user %d, %d files, oom_score_adj %d",
			*got, inside.UID, inside.Files, inside.OOM)
	}
}

// reachesSocket checks that a client on this host reaches a server by a Unix socket, without a network,
// and that the kernel says whose it is.
func reachesSocket(t *testing.T, s *suite) {
	dir, err := os.MkdirTemp("", "tare") // short
	noError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	noError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	socket := filepath.Join(dir, "socket")
	spec := s.spec("serve", socket)
	spec.Reach = bench.ReachSocket
	if _, plain := bench.As[bench.DataKeeper](s.engine); !plain {
		spec.Mounts = []bench.Mount{{Type: "bind", Source: dir, Target: dir}}
	}
	if s.refused(t, ReachSocket, spec) {
		return
	}
	x := s.ready(t, spec, "listening on "+socket+"\n")
	path, err := netpath.ToSocket(t.Context(), socket, x.pid(t))
	if err != nil || len(path) != 1 || path[0] != netpath.Socket {
		t.Errorf("ToSocket = %q, %v; want %q", path, err, netpath.Socket)
	}
	other := s.ready(t, s.spec("hold"), "ready\n")
	if path, err := netpath.ToSocket(t.Context(), socket, other.pid(t)); err == nil {
		t.Errorf("ToSocket of another container = %q, want a mismatch", path)
	}
	spec.Ports = []bench.Port{{Container: 80, Protocol: "tcp"}}
	s.refuses(t, spec)
}
