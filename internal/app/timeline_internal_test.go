package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/podman"
)

// A teller is an engine that tells its daemons, or why it cannot.
type teller struct {
	bench.Engine
	daemons []int
	err     error
}

func (t teller) Daemons(context.Context) ([]int, error)            { return t.daemons, t.err }
func (t teller) Pid(context.Context, bench.Container) (int, error) { return 0, nil }

// An engine that is elsewhere, or started on demand, has no timeline, and the reason is told.
func TestFollowable(t *testing.T) {
	far := fmt.Errorf("%w: far: not visible from here", bench.ErrUnsupported)
	of := func(driver string, e teller) Probed {
		return Probed{Instance: Instance{Name: "some", Driver: driver}, Engine: e}
	}
	own := of("podman", teller{})
	own.Info.Facts = []bench.Label{podman.OwnService}
	absent := of("docker", teller{err: far})
	absent.Err = far
	for name, c := range map[string]struct {
		engine Probed
		why    string // empty = it can be followed
	}{
		"a daemon":               {of("docker", teller{daemons: []int{7}}), ""},
		"a runtime":              {of("oci", teller{}), ""},
		"a service of tare's":    {own, ""},
		"an engine without runs": {absent, ""},
		"a far engine":           {of("docker", teller{err: far}), "far: not visible from here"},
		"a failure":              {of("docker", teller{err: errors.New("no answer")}), "of some cannot be found: no answer"},
		"a service on demand":    {of("podman", teller{}), "the service of some is started on demand"},
	} {
		err := c.engine.followable(t.Context())
		if c.why == "" && err == nil {
			continue
		}
		if c.why == "" || !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}
