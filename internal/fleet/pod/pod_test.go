package pod_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/pod"
)

// A round is begun at its time: not before, not twice, and not when it is late.
func TestNextRound(t *testing.T) {
	began := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	start := &fleet.Start{Began: began, Round: 10 * time.Second}
	for _, tt := range []struct {
		name  string
		done  int
		after time.Duration
		round int
		ok    bool
	}{
		{"early", -1, -time.Minute, 0, true},
		{"exactly", -1, 0, 0, true},
		{"a moment late", -1, time.Nanosecond, 1, true},
		{"while a round lasts", 2, 27 * time.Second, 3, true},
		{"after a round that was too long", 2, 41 * time.Second, 5, true},
		{"the clock was set back", 4, -time.Hour, 5, true},
		{"the last", 3, 49 * time.Second, 5, false},
		{"far too late", -1, time.Hour, 360, false},
	} {
		round, at, ok := pod.NextRound(start, 5, tt.done, began.Add(tt.after))
		if round != tt.round || ok != (tt.round < 5) || !at.Equal(began.Add(time.Duration(round)*start.Round)) {
			t.Errorf("%s: round %d at %v, %v; want %d", tt.name, round, at, ok, tt.round)
		}
	}
}

func write(t *testing.T, root, dir, file string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(root, dir), 0o755),
			os.WriteFile(filepath.Join(root, dir, file), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A pod reads its order and waits for its own start signal.
func TestSite(t *testing.T) {
	root := t.TempDir()
	vars := map[string]string{fleet.EnvNode: "n1", fleet.EnvPass: "2"}
	env := func(name string) string { return vars[name] }
	if _, err := pod.Open(root, env); !errors.Is(err, pod.ErrNoPod) {
		t.Errorf("without files: error %v", err)
	}
	write(t, root, fleet.OrderDir, fleet.OrderFile, fleet.Order{Fleet: "f", Rounds: 8, Confirm: 5})
	write(t, root, fleet.OrderDir, fleet.SourceFile, "source")
	s, err := pod.Open(root, env)
	if err != nil {
		t.Fatal(err)
	}
	if s.Rounds() != 5 || s.Run() != "f-2-n1" || string(s.Source) != `"source"` {
		t.Errorf("%d rounds, run %s, source %s", s.Rounds(), s.Run(), s.Source)
	}
	write(t, root, fleet.StartDir, fleet.StartFile, fleet.Start{Pass: 1, Round: time.Second})
	if _, err := s.AwaitStart(t.Context(), time.Millisecond); !errors.Is(err, pod.ErrNoStart) {
		t.Errorf("before the start of its pass: error %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.AwaitStart(ended, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("ended while it waits: error %v", err)
	}
	write(t, root, fleet.StartDir, fleet.StartFile, fleet.Start{
		Pass: 2, Round: time.Second, Peers: []fleet.Peer{{Node: "n0", Ahead: 1}, {Index: 3, Node: "n1", Ahead: time.Hour}},
	})
	start, err := s.AwaitStart(t.Context(), time.Hour)
	if err != nil || s.Ahead(start) != time.Hour {
		t.Errorf("start %+v, %v; want one for a clock that is an hour ahead", start, err)
	}
	vars[fleet.EnvPass] = "3"
	if _, err := pod.Open(root, env); !errors.Is(err, pod.ErrNoPod) {
		t.Errorf("a third pass: error %v", err)
	}
}
