package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// newStore is an empty store.
func newStore(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// keeping is a store of empty runs, by their IDs.
func keeping(t *testing.T, ids ...string) *sqlite.Store {
	t.Helper()
	s := newStore(t)
	for _, id := range ids {
		if err := record.Copy(t.Context(), s, storetest.Example(id, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// kindOf is the kind of a problem; empty for none.
func kindOf(err error) Kind {
	for p := range Problems(err) {
		return p.Kind
	}
	return ""
}

func TestFindRunByName(t *testing.T) {
	s := keeping(t, "2026-aaaa", "2026-bbbb", "mine")
	if err := s.Rename(t.Context(), "2026-aaaa", "aaaa-too"); err != nil {
		t.Fatal(err)
	}
	if err := s.Rename(t.Context(), "2026-bbbb", "mine"); err != nil { // an import has it as an ID
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, id string
		kind     Kind
	}{
		{"aaaa-too", "2026-aaaa", ""},
		{"aaaa", "2026-aaaa", ""},
		{"aaaa-to", "", NoRun}, // names are whole
		{"Aaaa-too", "", NoRun},
		{"mine", "", ManyRuns},
		{"min", "mine", ""},
	} {
		id, err := FindRun(t.Context(), s, tt.name)
		if id != tt.id || kindOf(err) != tt.kind {
			t.Errorf("%s: %q, %v; want %q, %q", tt.name, id, err, tt.id, tt.kind)
		}
	}
}

// Whatever runs there are, the short form of an ID means that run.
func TestShortIDs(t *testing.T) {
	ids := []string{
		"20261123-075816-73eh", "20261123-075816-abcd", "20261124-075816-abcd", "a", "run-1",
		"20261125-000000-long", "xxlong", "2345-20261126-000000", "20261126-000000-2345",
		"20261127-000000-name", "aaaa-aaaa",
	}
	s := keeping(t, ids...)
	if err := s.Rename(t.Context(), "a", "name"); err != nil {
		t.Fatal(err)
	}
	short := NewShortener(t.Context(), s)
	got := map[string]string{}
	for _, id := range ids {
		got[id] = short.Short(t.Context(), id)
		if found, err := FindRun(t.Context(), s, got[id]); err != nil || found != id {
			t.Errorf("%s of %s means %q, %v", got[id], id, found, err)
		}
	}
	want := map[string]string{
		"20261123-075816-73eh": "73eh", "20261123-075816-abcd": "20261123-075816-abcd",
		"20261124-075816-abcd": "20261124-075816-abcd",
		"a":                    "a", "run-1": "run-1", "20261125-000000-long": "000000-long", "xxlong": "xxlong",
		"2345-20261126-000000": "000000", "20261126-000000-2345": "000000-2345",
		"20261127-000000-name": "000000-name", "aaaa-aaaa": "aaaa-aaaa",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	err := short.Shorten(t.Context(), errors.Join(&Problem{Kind: Stopped, Err: errBroken, Run: ids[0]}))
	for p := range Problems(err) {
		if p.Run != "73eh" {
			t.Errorf("the problem is of %s", p.Run)
		}
	}
}

func TestCheckName(t *testing.T) {
	s := keeping(t, "20261123-075816-slow")
	if err := s.Rename(t.Context(), "20261123-075816-slow", "taken"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Kind{
		"": "", "before-upgrade": "", "v1.2_x": "", "slower": "",
		"taken": NameTaken, "slow": BadName, "last": BadName, "2026": BadName, "a b": BadName,
	} {
		if err := CheckName(t.Context(), s, name); kindOf(err) != want || (err == nil) != (want == "") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if err := Rename(t.Context(), s, "20261123-075816-slow", "taken"); err != nil {
		t.Errorf("the name that it has: %v", err)
	}
}

func TestFilter(t *testing.T) {
	h := storetest.Example("a", 0).Header
	h.Plan.Labels = []bench.Label{{Key: "side", Value: "before"}, {Key: "empty", Value: ""}}
	label := func(all ...string) (f Filter) {
		for _, text := range all {
			key, value, _ := strings.Cut(text, "=")
			f.Labels = append(f.Labels, bench.Label{Key: key, Value: value})
		}
		return f
	}
	for _, tt := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{Experiment: "example", Host: "here", Engines: []string{"runc"}}, true},
		{Filter{Experiment: "exam"}, false},
		{Filter{Host: "there"}, false},
		{Filter{Engines: []string{"runc", "crun"}}, true},
		{Filter{Engines: []string{"runc", "docker"}}, false},
		{label("side"), true},
		{label("side=before"), true},
		{label("side=after"), false},
		{label("side=after", "side=before"), true},
		{label("side=before", "other"), false},
		{label("empty"), true},
		{Filter{Since: h.Began}, true},
		{Filter{Since: h.Began.Add(1)}, false},
		{Filter{Before: h.Began}, false},
		{Filter{Before: h.Began.Add(1)}, true},
	} {
		if got := tt.f.Chooses(&h); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.f, got, tt.want)
		}
	}
}

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("here", 5*3600)
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, zone),
		"2026-11-20 15:04":     time.Date(2026, 11, 20, 15, 4, 0, 0, zone),
		"2026-11-20T15:04":     time.Date(2026, 11, 20, 15, 4, 0, 0, zone),
		"2026-11-20T15:04:05Z": time.Date(2026, 11, 20, 15, 4, 5, 0, time.UTC),
		"7d":                   now.AddDate(0, 0, -7),
		" 36h ":                now.Add(-36 * time.Hour),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "2026-13-01", "-7d", "7", "2026"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// A run is under way while somebody has its lock, and only then. It is not removed then, and
// looking takes the lock from nobody.
func TestUnderWay(t *testing.T) {
	s := keeping(t, "a", "b", "c")
	a, err := New(Config{}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := makeRunDir(a.state, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(a.runDir("b"), lockName), 0o700); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"a": true, "b": false, "c": false, "../a": false} {
		if got := a.UnderWay(id); got != want {
			t.Errorf("run %s is under way: %v, want %v", id, got, want)
		}
	}
	if _, err := a.ToRemove(t.Context(), s, []string{"c", "a"}, nil); kindOf(err) != UnderWay {
		t.Errorf("to remove a run that is under way: %v", err)
	}
	found, err := a.ToRemove(t.Context(), s, nil, new(Filter))
	if err != nil || len(found.Runs) != 2 || len(found.Running) != 1 {
		t.Errorf("to remove all: %+v, %v", found, err)
	}
	if err := a.Remove(t.Context(), s, []string{"a"}, func(string) {}); kindOf(err) != UnderWay {
		t.Errorf("Remove: %v", err)
	}
	if err := dir.close(); err != nil {
		t.Fatal(err)
	}
	if a.UnderWay("a") {
		t.Error("run a is under way, and its process is gone")
	}
	if dead, err := a.DeadRuns(); err != nil || len(dead) != 1 {
		t.Errorf("dead runs %q, %v; want a", dead, err)
	}
	gone := ""
	if err := a.Remove(t.Context(), s, []string{"a", "b"}, func(id string) { gone += id }); err != nil || gone != "ab" {
		t.Errorf("Remove: %v, gone are %q", err, gone)
	}
}

// What ended and has measured nothing is not kept, nor is what has no trial; what can be
// gone on with is.
func TestDiscard(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(*bench.Run)
		want   bool
	}{
		"measured":    {func(*bench.Run) {}, false},
		"nothing":     {fail, true},
		"no trials":   {func(r *bench.Run) { r.Samples = nil }, true},
		"interrupted": {func(r *bench.Run) { fail(r); r.End = nil }, false},
		"at once":     {func(r *bench.Run) { r.Samples, r.End = nil, nil }, true},
	} {
		r := storetest.Example("a", 2)
		tt.change(r)
		s := newStore(t)
		if err := record.Copy(t.Context(), s, r); err != nil {
			t.Fatal(err)
		}
		got, err := Discard(t.Context(), s, r)
		if err != nil || got != tt.want {
			t.Errorf("%s: discarded %v, %v; want %v", what, got, err, tt.want)
		}
		if ids, err := s.Find(t.Context(), "", 0); err != nil || (len(ids) == 0) != tt.want {
			t.Errorf("%s: %q are left, %v", what, ids, err)
		}
	}
}

// fail makes every trial one that failed.
func fail(r *bench.Run) {
	for i := range r.Samples {
		s := &r.Samples[i]
		*s = bench.Sample{Trial: s.Trial, Began: s.Began, Outcome: bench.Failed, Reason: "broken"}
	}
}
