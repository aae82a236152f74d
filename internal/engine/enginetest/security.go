package enginetest

import (
	"errors"
	"strconv"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

func readOnlyRoot(t *testing.T, s *suite, spec bench.Spec) {
	spec.Argv = s.spec("write", "/file", "text").Argv
	if _, exit := s.run(t, spec); exit.Code == 0 {
		t.Error("writing to a read-only root succeeds")
	}
	if s.facts(t, spec).RootWritable {
		t.Error("a read-only root looks writable inside")
	}
	if s.unsupported(TmpfsMount) {
		return
	}
	// Mounts work too, for which their targets must exist.
	spec.Argv = []string{agent.Path, "write", "/mnt/data/file", "text"}
	spec.Mounts = []bench.Mount{{Type: "tmpfs", Target: "/mnt/data", Size: 1 << 20}}
	s.output(t, spec)
}

func noNewPrivileges(t *testing.T, s *suite, spec bench.Spec) {
	if !s.facts(t, spec).NoNewPrivs {
		t.Error("no_new_privs is not set inside")
	}
	if s.plainFacts(t).NoNewPrivs {
		t.Error("no_new_privs is set inside, and nobody asked for it")
	}
}

func unconfined(t *testing.T, s *suite, spec bench.Spec) {
	if got := s.facts(t, spec).Seccomp; got != 0 {
		t.Errorf("seccomp mode %d inside, want 0, none", got)
	}
}

// One filter for all engines, with and without what makes runtimes set it last.
func seccompDocker(t *testing.T, s *suite, spec bench.Spec) {
	for _, noNewPrivileges := range []bool{false, true} {
		spec.Security.NoNewPrivileges = noNewPrivileges
		if got := s.facts(t, spec).Seccomp; got != 2 {
			t.Errorf("no_new_privs %v: seccomp mode %d inside, want 2, a filter", noNewPrivileges, got)
		}
		x := s.ready(t, spec, "ready\n")
		if a, err := x.Inspect(t.Context()); err != nil || a.Security.Seccomp != bench.SeccompDocker {
			t.Errorf("Inspect of one that runs: %q, %v; want the filter", a.Security.Seccomp, err)
		}
	}
	spec.Security.NoNewPrivileges, spec.Security.Privileged = false, true
	s.refuses(t, spec)
}

func userNamespace(t *testing.T, s *suite, spec bench.Spec) {
	facts := s.facts(t, spec)
	if facts.UserNS == namespace(t, "user") {
		t.Error("the user namespace is the host's")
	}
	if facts.UID != 0 {
		t.Errorf("user %d inside, want 0", facts.UID)
	}
	filesOfNamespace(t, s, spec)
}

// filesOfNamespace checks that the files of a container with a user namespace belong to its root,
// and that its data is writable, in every network.
func filesOfNamespace(t *testing.T, s *suite, spec bench.Spec) {
	t.Helper()
	spec.Argv = []string{agent.Path, "write", "/etc/passwd", "text"}
	s.output(t, spec)
	for _, on := range storages() {
		if s.unsupported(on.feature) {
			continue
		}
		with := spec
		with.Storage = on.word
		s.writesData(t, with)
	}
	if s.unsupported(NetworkHost) {
		return
	}
	spec.Network = "host"
	if facts := s.facts(t, spec); facts.NetNS != namespace(t, "net") {
		t.Error("with a user namespace, network host is not the host's")
	}
}

// A privileged container has capabilities that others lack.
func privileged(t *testing.T, s *suite, spec bench.Spec) {
	if !s.hasSysAdmin(t, spec) {
		t.Error("a privileged container lacks CAP_SYS_ADMIN")
	}
	spec.Security.Privileged = false
	if s.hasSysAdmin(t, spec) {
		t.Error("a container has CAP_SYS_ADMIN, and nobody asked for it")
	}
}

// hasSysAdmin reports whether the first process of a container has CAP_SYS_ADMIN.
func (s *suite) hasSysAdmin(t *testing.T, spec bench.Spec) bool {
	t.Helper()
	const capSysAdmin, field = 21, "CapEff"
	var text string
	if s.Sandboxed {
		spec.Argv = []string{agent.Path, "cat", "/proc/self/status"}
		text = fieldOf(t, s.output(t, spec), field)
	} else {
		text = s.ready(t, spec, "ready\n").status(t, field)
	}
	caps, err := strconv.ParseUint(text, 16, 64)
	noError(t, err)
	return caps&(1<<capSysAdmin) != 0
}

// Every engine refuses a Spec that no engine can provide.
func refusedSpecs(t *testing.T, s *suite) {
	for name, change := range map[string]func(*bench.Spec){
		"network":     func(s *bench.Spec) { s.Network = "no-such-network" },
		"mount type":  func(s *bench.Spec) { s.Mounts = []bench.Mount{{Type: "no-such-type", Target: "/mnt"}} },
		"runtime":     func(s *bench.Spec) { s.Runtime = "no-such-runtime" },
		"snapshotter": func(s *bench.Spec) { s.Snapshotter = "no-such-snapshotter" },
		"storage":     func(s *bench.Spec) { s.Storage = "no-such-storage" },
		"seccomp":     func(s *bench.Spec) { s.Security.Seccomp = "no-such-profile" },
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.spec("exit", "0")
			change(&spec)
			s.refuses(t, spec)
		})
	}
	t.Run("image", func(t *testing.T) { missingImage(t, s) })
}

// An image that does not exist is an error, though not always for good: it may
// be made later.
func missingImage(t *testing.T, s *suite) {
	spec := s.spec("exit", "0")
	spec.Image = "oci:/no/such/layout"
	err := s.engine.Prepare(t.Context(), spec)
	if c, cerr := s.engine.Create(t.Context(), spec); cerr == nil {
		s.adopt(t, c, spec, "")
		t.Errorf("Create with image %s succeeds (Prepare: %v)", spec.Image, err)
	}
}

// noCgroup checks that the reason for a missing cgroup is conclusive, and that the engine then does
// not claim any limits.
func (s *suite) noCgroup(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Cgroup: %v, want a path or bench.ErrUnsupported", err)
	}
	if !s.unsupported(MemoryLimit) {
		t.Errorf("Cgroup: %v; but memory is said to be limited", err)
	}
}
