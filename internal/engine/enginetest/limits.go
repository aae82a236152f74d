package enginetest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Limits are checked twice: attested by the engine, and read here from the
// kernel, in the groups that the process inside really is in.

func noLimits(t *testing.T, s *suite) {
	x := s.ready(t, s.spec("hold"), "ready\n")
	if got := x.applied.Limits; got.CPUs != 0 || got.Memory != 0 {
		t.Errorf("limits that nobody asked for: %+v", got)
	}
	if got := x.status(t, "Cpus_allowed_list"); got != statusOf(t, os.Getpid(), "Cpus_allowed_list") {
		t.Errorf("CPUs allowed: %s, want those of tare", got)
	}
}

func cpuQuota(t *testing.T, s *suite, spec bench.Spec) {
	x := s.ready(t, spec, "ready\n")
	if got := x.limits(t, "cpu").CPUs; got != 0.5 {
		t.Errorf("the kernel's CPU quota = %v, want 0.5", got)
	}
}

func cpuSet(t *testing.T, s *suite) {
	spec := s.spec("hold")
	spec.Limits.CPUSet = lastCPU(t)
	if s.refused(t, CPUSet, spec) {
		return
	}
	x := s.ready(t, spec, "ready\n")
	if got := x.status(t, "Cpus_allowed_list"); got != spec.Limits.CPUSet {
		t.Errorf("CPUs allowed: %s, want %s", got, spec.Limits.CPUSet)
	}
	refusesSet(t, s)
}

// refusesSet checks for an error with a CPU that no machine has.
func refusesSet(t *testing.T, s *suite) {
	t.Helper()
	spec := s.spec("exit", "0")
	spec.Limits.CPUSet = "8000"
	c, err := s.engine.Create(t.Context(), spec)
	if err != nil {
		return
	}
	if err := s.adopt(t, c, spec, "").Start(t.Context()); err == nil {
		t.Error("a container starts on CPU 8000")
	}
}

// lastCPU is the last CPU that this process may use.
func lastCPU(t *testing.T) string {
	t.Helper()
	list := statusOf(t, os.Getpid(), "Cpus_allowed_list")
	return list[strings.LastIndexAny(list, ",-")+1:]
}

func memoryLimit(t *testing.T, s *suite, spec bench.Spec) {
	limit := spec.Limits.Memory
	x := s.ready(t, spec, "ready\n")
	if got := x.limits(t, "memory").Memory; got != limit {
		t.Errorf("the kernel's memory limit = %d, want %d", got, limit)
	}
	if swap(t) {
		return // the limit covers only RAM, and the rest goes to swap
	}
	spec.Argv = s.spec("alloc", fmt.Sprint(4*limit)).Argv
	if _, exit := s.run(t, spec); exit.Code != 137 {
		t.Errorf("after using more than the limit: %+v, want it killed", exit)
	}
}

// swap reports whether the host has swap.
func swap(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/swaps")
	noError(t, err)
	return strings.Count(string(text), "\n") > 1
}

func pidsLimit(t *testing.T, s *suite, spec bench.Spec) {
	limit := spec.Limits.Pids
	spec.Argv = s.spec("fork", "64").Argv
	x := s.ready(t, spec, "forked ")
	if got := x.limits(t, "pids").Pids; got != limit {
		t.Errorf("the kernel's limit of processes = %d, want %d", got, limit)
	}
	count, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(x.stdout.String(), "forked ")))
	if err != nil || count < 1 || int64(count) >= limit {
		t.Errorf("%q, want fewer than %d", x.stdout.String(), limit)
	}
}

// limits reads the limits of the group that the first process is in.
func (x *trial) limits(t *testing.T, controller string) cgroup.Limits {
	t.Helper()
	h, err := cgroup.Detect("/")
	noError(t, err)
	groups, err := h.PathOf(x.pid(t))
	noError(t, err)
	group, ok := groups[controller]
	if !ok {
		group = groups[""]
	}
	l, err := h.Limits(group)
	noError(t, err)
	return l
}

// "Cgroup returns the path of the container's cgroup."
func cgroupPath(t *testing.T, s *suite, e bench.Cgrouper) {
	x := s.ready(t, s.spec("hold"), "ready\n")
	path, err := e.Cgroup(t.Context(), x.Container)
	if err != nil {
		s.noCgroup(t, err)
		return
	}
	h, err := cgroup.Detect("/")
	noError(t, err)
	procs, err := h.Procs(path)
	if err != nil || !slices.Contains(procs, x.pid(t)) {
		t.Errorf("in %s are the processes %d (%v), want %d among them", path, procs, err, x.pid(t))
	}
}
