package enginetest

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// A run that dies leaves objects that the next one finds by the dead run's ID:
// all of them, and nothing else.
func leftovers(t *testing.T, s *suite) {
	if s.Remote {
		return
	}
	alive := s.ready(t, s.spec("hold"), "ready\n")
	data := t.TempDir()
	dead, outside := s.abandon(t, data)

	if left := list(t, s.cleaner(t), func(string) bool { return false }); len(left) != 0 {
		t.Errorf("Leftovers of no run: %v", left)
	}
	left := s.leftoversOf(t, dead.Run)
	if len(left) == 0 {
		t.Error("Leftovers finds nothing of a run that left a container")
	}
	for _, l := range left {
		s.clean(t, l, dead.Run)
	}
	if left := s.leftoversOf(t, dead.Run); len(left) != 0 {
		t.Errorf("Leftovers after they were removed: %v", left)
	}
	s.nothingLeft(t, dead)
	emptied(t, data, outside...)
	if len(alive.processes(t)) == 0 {
		t.Error("cleaning up after one run killed a container of another")
	}
}

func list(t *testing.T, c bench.Cleaner, dead func(string) bool) []bench.Leftover {
	t.Helper()
	left, err := c.Leftovers(t.Context(), dead)
	if err != nil {
		t.Fatalf("Leftovers: %v", err)
	}
	return left
}

// clean removes one leftover, twice: "It is not an error if it is gone."
func (s *suite) clean(t *testing.T, l bench.Leftover, run string) {
	t.Helper()
	if l.Run != run || l.Engine != s.engine.Name() || l.Kind == "" || l.ID == "" {
		t.Errorf("leftover %+v, want one of run %s and engine %s", l, run, s.engine.Name())
		return
	}
	for range 2 {
		if err := s.cleaner(t).RemoveLeftover(t.Context(), l); err != nil {
			t.Errorf("RemoveLeftover(%+v): %v", l, err)
		}
	}
}

// abandon leaves behind a running container, one that was not started, and some with data outside,
// like a run that was killed.
func (s *suite) abandon(t *testing.T, data string) (_ Env, outside []string) {
	t.Helper()
	other := s.died(t)
	other.ready(t, other.spec("fork", "3"), "forked 3\n")
	spec := other.spec("hold")
	switch { // some networks are made for the run
	case s.Simulated:
	case !s.unsupported(NetworkMacvlan):
		spec.Network = "macvlan"
	case !s.unsupported(NetworkBridge):
		spec.Network = "bridge"
	}
	other.create(t, spec)
	return other.env, other.leavesData(t, data)
}
