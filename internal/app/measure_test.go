package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
)

// fullStore takes no run.
type fullStore struct{ bench.Store }

func (fullStore) Create(context.Context, bench.Header) (bench.RunWriter, error) {
	return nil, errors.New("no space left")
}

// Where a run cannot begin, no engine is left open.
func TestEnginesAreClosedWhereNothingBegins(t *testing.T) {
	refuses := func(context.Context, bench.Store, bench.Header) (bench.RunWriter, error) {
		return nil, errors.New("no such directory")
	}
	for what, o := range map[string]Options{"the output": {Create: refuses}, "the store": {}} {
		e := enginetest.NewFake(enginetest.FakeConfig{Name: "fake"})
		p := &Planned{
			Plan:   bench.Plan{Cells: []bench.Cell{{Engine: "fake"}}},
			Probed: []Probed{{Instance: Instance{Name: "fake"}, Engine: e}}, Workload: lifecycle.New(),
			engineSite: new(EngineSite),
		}
		if _, err := begin(t.Context(), fullStore{}, p, new(bench.Header), t.TempDir(), o); err == nil {
			t.Errorf("%s refuses, and the run begins", what)
		}
		if !slices.Contains(e.Calls(), "close") {
			t.Errorf("%s refuses: the engine was asked to %q, and not closed", what, e.Calls())
		}
	}
}

// A run over a few of all engines tells those that it could not choose; one over chosen engines tells none.
func TestLeftOut(t *testing.T) {
	broken := errors.New("permission denied")
	probed := func(name string, err error) Probed { return Probed{Instance: Instance{Name: name}, Err: err} }
	p := &Planned{
		Plan:   bench.Plan{Cells: []bench.Cell{{Engine: "native"}}, LeftOut: []string{"runc"}},
		Probed: []Probed{probed("native", nil), probed("runc", nil), probed("docker", broken)},
	}
	if got := p.LeftOut(); len(got) != 1 || got[0].Name != "docker" {
		t.Errorf("left out: %v, want docker", got)
	}
	p.Plan.LeftOut = nil // somebody chose native
	if got := p.LeftOut(); got != nil {
		t.Errorf("left out of those chosen: %v", got)
	}
}

// An engine that has not answered is told as slow, and stays one about which nothing is known.
func TestSlowEngine(t *testing.T) {
	err := explainTimeout(fmt.Errorf("docker: version: %w", context.DeadlineExceeded), probeTime)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 10s: try again") {
		t.Errorf("slow = %v, want what was asked, for how long, and what to do", err)
	}
	if other := errors.New("another"); explainTimeout(other, probeTime) != other || explainTimeout(nil, probeTime) != nil {
		t.Error("another error is changed")
	}
}
