package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// fullStore takes no run.
type fullStore struct{ bench.Store }

func (fullStore) Create(context.Context, bench.Header) (bench.RunWriter, error) {
	return nil, errors.New("no space left")
}

// Where a run cannot begin, no engine is left open.
func TestEnginesAreClosedWhereNothingBegins(t *testing.T) {
	for what, output := range map[string]string{"the output": filepath.Join(t.TempDir(), "none", "file"), "the store": ""} {
		e := enginetest.NewFake(enginetest.FakeConfig{Name: "fake"})
		p := &planned{
			plan:   bench.Plan{Cells: []bench.Cell{{Engine: "fake"}}},
			probed: []probed{{instance: instance{Name: "fake"}, engine: e}},
		}
		if _, _, err := new(app).begin(t.Context(), fullStore{}, p, new(bench.Header), output); err == nil {
			t.Errorf("%s refuses, and the run begins", what)
		}
		if !slices.Contains(e.Calls(), "close") {
			t.Errorf("%s refuses: the engine was asked to %q, and not closed", what, e.Calls())
		}
	}
}
