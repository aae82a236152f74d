package storetest

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// Fleets are kept beside runs, by the stores that can.
func testFleets(t *testing.T, s *suite) {
	k, ok := s.Store.(bench.FleetKeeper)
	if !ok {
		t.Skip("this store keeps no fleets")
	}
	wantIDs := func(want ...string) {
		t.Helper()
		got, err := k.Fleets(s.ctx)
		s.must(err)
		if !slices.Equal(got, want) {
			t.Errorf("the fleets are %q, want %q", got, want)
		}
	}
	wantIDs()
	_, err := k.Fleet(s.ctx, "a")
	s.wantIs("Fleet before the first", err, fs.ErrNotExist)
	s.wantIs("RemoveFleet before the first", k.RemoveFleet(s.ctx, "a"), fs.ErrNotExist)
	s.wantIs("PutFleet", k.PutFleet(s.ctx, "../a", nil), bench.ErrRunID)

	s.must(k.PutFleet(s.ctx, "a", []byte("first")))
	s.must(k.PutFleet(s.ctx, "b", []byte("\x00'\n")))
	s.must(k.PutFleet(s.ctx, "a", []byte("second")))
	wantIDs("b", "a")
	for id, want := range map[string]string{"a": "second", "b": "\x00'\n"} {
		if got, err := k.Fleet(s.ctx, id); err != nil || string(got) != want {
			t.Errorf("Fleet(%s) = %q, %v; want %q", id, got, err, want)
		}
	}

	run := Example("a", 4) // of the same ID
	run.Resumptions, run.End = nil, nil
	s.must(s.create(run.Header, run.Samples...).Close())
	s.must(k.RemoveFleet(s.ctx, "a"))
	wantIDs("b")
	s.wantRun(run)
	_, err = k.Fleet(s.ctx, "a")
	s.wantIs("Fleet of one that is removed", err, fs.ErrNotExist)
	s.wantIs("RemoveFleet, twice", k.RemoveFleet(s.ctx, "a"), fs.ErrNotExist)
}
