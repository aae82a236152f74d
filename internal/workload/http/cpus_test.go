package http

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// What an image runs by itself is kept off the client's CPUs where the engine does that,
// and called apart from the client nowhere else. What was tried is removed.
func TestKeepApart(t *testing.T) {
	broken, stays := errors.New("broken"), errors.New("it stays")
	refuses := fmt.Errorf("%w: no cpuset", bench.ErrUnsupported)
	fails := func(op enginetest.Op, err error) enginetest.FakeConfig {
		return enginetest.FakeConfig{Faults: []enginetest.Fault{{Op: op, Err: err}}}
	}
	drops := enginetest.FakeConfig{Applied: func(a *bench.Applied) { a.Limits.CPUSet = "" }}
	for name, test := range map[string]struct {
		kind   server
		client []int
		set    string // of the cell
		engine enginetest.FakeConfig
		apart  bool
		keeps  string // the set that the server gets
		err    error
	}{
		"kept by its container":        {imageServer, []int{0}, "", enginetest.FakeConfig{}, true, "1", nil},
		"the engine refuses":           {imageServer, []int{0}, "", fails(enginetest.OpCreate, refuses), false, "", nil},
		"the engine does not do it":    {imageServer, []int{0}, "", drops, false, "", nil},
		"the engine is broken":         {imageServer, []int{0}, "", fails(enginetest.OpCreate, broken), false, "", broken},
		"cannot be looked at":          {imageServer, []int{0}, "", fails(enginetest.OpInspect, broken), false, "", broken},
		"cannot be removed":            {imageServer, []int{0}, "", fails(enginetest.OpRemove, stays), false, "", stays},
		"a set without the client's":   {imageServer, []int{0}, "1-2", drops, true, "1-2", nil},
		"a set with one of the client": {imageServer, []int{0}, "0-1", drops, false, "0-1", nil},
		"a server that is told":        {builtIn, []int{0}, "0-1", drops, true, "0-1", nil},
		"one CPU":                      {imageServer, nil, "", enginetest.FakeConfig{}, false, "", nil},
	} {
		e := enginetest.NewFake(test.engine)
		s := &fixture{
			task: bench.Task{Engine: e}, kind: test.kind, server: bench.Spec{Limits: bench.Limits{CPUSet: test.set}},
		}
		s.cpus.client, s.cpus.server = test.client, []int{1}
		err := s.separateCPUs(t.Context())
		if !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", name, err, test.err)
		}
		if apart := s.separate && err == nil; apart != test.apart || s.server.Limits.CPUSet != test.keeps {
			t.Errorf("%s: apart %v on %q, want %v on %q", name, apart, s.server.Limits.CPUSet, test.apart, test.keeps)
		}
		if e.Live() > 0 && !errors.Is(err, stays) {
			t.Errorf("%s: %d containers are left", name, e.Live())
		}
	}
}
