package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// A part of an ID means a fleet only if it is that of no other.
func TestFleetsCalled(t *testing.T) {
	found := make([]cluster.Found, 3)
	for i, id := range []string{"20261126-1200-abcd", "20261126-1200-efgh", "20261126-1200-abcd-x"} {
		found[i].Plan.Fleet.ID = id
	}
	for name, want := range map[string]string{
		"abcd": "20261126-1200-abcd", "efgh": "20261126-1200-efgh", "20261126-1200-abcd": "20261126-1200-abcd",
		"20261126-1200-abcd-": "20261126-1200-abcd-x", "2026": "", "": "", "1200": "",
	} {
		ids, err := fleetsCalled(found, []string{name}, "default")
		if want == "" && err == nil || want != "" && !slices.Equal(ids, []string{want}) {
			t.Errorf("%q: %q, %v; want %q", name, ids, err, want)
		}
	}
}

// A fleet is read when each of its nodes has an end in each pass that has begun and has that node.
func TestIsRead(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }() // the test is over
	first := []fleet.Outcome{{Node: "a", Pass: 1, State: fleet.Done}, {Node: "b", Pass: 1, State: fleet.Gone}}
	with := func(node string, pass int, state fleet.State) []fleet.Outcome {
		return append(slices.Clone(first), fleet.Outcome{Node: node, Pass: pass, State: state})
	}
	for name, c := range map[string]struct {
		passes   int // that have begun
		outcomes []fleet.Outcome
		want     bool
	}{
		"nothing":           {1, nil, false},
		"half of the first": {1, first[:1], false},
		"the first":         {1, first, true},
		"no second":         {2, first, false},
		"half of a second":  {2, with("b", 2, fleet.Running), false},
		"another's second":  {2, with("a", 2, fleet.Done), false},
		"both":              {2, with("b", 2, fleet.Done), true},
	} {
		f := fleet.Fleet{
			Format: fleet.Format, ID: "20261126-120000-abcd", Namespaces: []string{"default"}, Outcomes: c.outcomes,
			Nodes: []fleet.Node{{Name: "a"}, {Name: "b"}}, Starts: make([]time.Time, c.passes),
		}
		text, err := json.Marshal(f)
		if err == nil {
			err = store.PutFleet(t.Context(), f.ID, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		found := &cluster.Found{Plan: cluster.Plan{Fleet: f}, Passes: [2][]int{{0, 1}, {1}}}
		if got := isRead(t.Context(), store, found); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
