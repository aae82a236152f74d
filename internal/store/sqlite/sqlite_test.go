package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
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
