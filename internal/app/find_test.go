package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// stored is a store of runs that have no samples, the newest first; all can be read.
type stored struct {
	EmptyStore
	ids []string
}

func (s stored) Find(_ context.Context, part string, limit int) (found []string, err error) {
	for _, id := range s.ids {
		if fits := strings.HasPrefix(id, part) || strings.HasSuffix(id, part); fits && (limit == 0 || len(found) < limit) {
			found = append(found, id)
		}
	}
	return found, nil
}

func (s stored) Open(_ context.Context, id string) (*bench.Run, error) {
	if !slices.Contains(s.ids, id) {
		return nil, fs.ErrNotExist
	}
	return storetest.Example(id, 0), nil
}

var errBroken = errors.New("broken")

// unreadable is a store of which some runs cannot be read.
type unreadable struct {
	stored
	broken []string
}

func (s unreadable) Open(ctx context.Context, id string) (*bench.Run, error) {
	if slices.Contains(s.broken, id) {
		return nil, fmt.Errorf("run %s: %w", id, errBroken)
	}
	return s.stored.Open(ctx, id)
}

// hiding is a store that cannot tell which runs there are but these.
type hiding struct{ stored }

func (s hiding) Find(ctx context.Context, part string, limit int) ([]string, error) {
	found, _ := s.stored.Find(ctx, part, limit)
	return found, errBroken
}

func TestFindRun(t *testing.T) {
	three := stored{ids: []string{"2026-b", "2026-a", "2025-b", "2025-b-b"}}
	for _, tt := range []struct {
		store bench.Store
		name  string
		id    string
		kind  Kind
	}{
		{three, "2026-a", "2026-a", ""},
		{three, "a", "2026-a", ""},
		{three, "2025-b", "2025-b", ""}, // though another begins so
		{three, "last", "2026-b", ""},
		{three, "2026", "", ManyRuns},
		{three, "b", "", ManyRuns},
		{three, "2024", "", NoRun},
		{three, "", "", NoRun},
		{EmptyStore{}, "last", "", NoRuns},
		{EmptyStore{}, "x", "", NoRuns},
		{hiding{three}, "a", "2026-a", ""},
		{hiding{three}, "last", "", LastUnknown},
	} {
		id, err := FindRun(t.Context(), tt.store, tt.name)
		var p *Problem
		if id != tt.id || (err != nil) != (tt.kind != "") || err != nil && (!errors.As(err, &p) || p.Kind != tt.kind) {
			t.Errorf("%q: %q, %v; want %q, %s", tt.name, id, err, tt.id, tt.kind)
		}
	}
	for name, near := range map[string]string{"2a": "2a7b", "3a7c": "3a7b", "2A7B": "2a7b", "zzzz": ""} {
		_, err := FindRun(t.Context(), stored{ids: []string{"2026-2a7b", "2025-3a7b"}}, name)
		var p *Problem
		if !errors.As(err, &p) || strings.Join(p.Names, " ") != near {
			t.Errorf("near %q is %v, want %q", name, p, near)
		}
	}
	if _, err := FindRun(t.Context(), hiding{three}, "2024"); !errors.Is(err, errBroken) {
		t.Errorf("what is not found where runs are hidden: %v, want that they are", err)
	}
}

// The run before the newest is not the last one, even if that cannot be read.
func TestLastIsTheNewest(t *testing.T) {
	s := unreadable{stored{ids: []string{"newest", "before"}}, []string{"newest"}}
	r, err := OpenRun(t.Context(), s, "last")
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "newest") {
		t.Errorf("last is %v, %v; want an error that names the newest", r, err)
	}
	if r, err := OpenRun(t.Context(), s, "bef"); err != nil || r.Header.ID != "before" {
		t.Errorf("%v, %v: one that is named is found", r, err)
	}
}
