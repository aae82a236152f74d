package sqlite_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
	"github.com/tare-bench/tare/internal/store/storetest"
)

func open(tb testing.TB, path string) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) bench.Store {
		return open(t, filepath.Join(t.TempDir(), "tare.db"))
	})
}

// Samples that say the same share it, so that a large run takes less memory, and nobody can append to it.
func TestShared(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tare.db"))
	defer closeOrFail(t, s)
	if err := record.Copy(t.Context(), s, storetest.Example("a", 20)); err != nil {
		t.Fatal(err)
	}
	run, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	first, later := run.Samples[5].Parts, run.Samples[12].Parts
	if len(later) == 0 || &first[0] != &later[0] || cap(later) != len(later) {
		t.Errorf("parts %v and %v, with room for %d", first, later, cap(later))
	}
	why, again := run.Samples[3].Reason, run.Samples[10].Reason
	if why == "" || why != again || unsafe.StringData(why) != unsafe.StringData(again) {
		t.Errorf("reasons %q and %q", why, again)
	}
}

// Of those who hold a run, each has it alone, and until it lets go; other runs are free meanwhile.
func TestHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.db")
	first, second := open(t, path), open(t, path)
	defer closeOrFail(t, first)
	defer closeOrFail(t, second)
	for _, id := range []string{"a", "b"} {
		if err := record.Copy(t.Context(), first, storetest.Example(id, 2)); err != nil {
			t.Fatal(err)
		}
	}
	a, err := first.Hold(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sqlite.Store{first, second} {
		if _, err := s.Hold(t.Context(), "a"); !errors.Is(err, bench.ErrHeld) {
			t.Errorf("a second time: %v, want bench.ErrHeld", err)
		}
	}
	b, err := second.Hold(t.Context(), "b")
	if err != nil {
		t.Fatalf("another run: %v", err)
	}
	closeOrFail(t, a)
	again, err := second.Hold(t.Context(), "a")
	if err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	closeOrFail(t, again)
	closeOrFail(t, b)
	if _, err := first.Hold(t.Context(), "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no run: %v, want fs.ErrNotExist", err)
	}
}
