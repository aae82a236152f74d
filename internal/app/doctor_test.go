package app

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// An engine that answers works here only if a container runs and ends: pods, for example, need an
// image of their own. Whatever fails, the container that was tried is removed.
func TestTryContainer(t *testing.T) {
	broken := errors.New("no image for pods")
	for name, test := range map[string]struct {
		fault enginetest.Fault
		want  string // empty = it works
	}{
		"works":           {enginetest.Fault{Op: enginetest.OpInspect, Err: broken}, ""}, // it is not asked for
		"no image":        {enginetest.Fault{Op: enginetest.OpPrepare, Err: broken}, broken.Error()},
		"no container":    {enginetest.Fault{Op: enginetest.OpCreate, Err: broken}, broken.Error()},
		"does not start":  {enginetest.Fault{Op: enginetest.OpStart, Err: broken}, broken.Error()},
		"does not end":    {enginetest.Fault{Op: enginetest.OpRun, Delay: enginetest.Forever}, "deadline exceeded"},
		"does not remove": {enginetest.Fault{Op: enginetest.OpRemove, Call: 1, Err: broken}, ""}, // the second time it does
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := enginetest.NewFake(enginetest.FakeConfig{Faults: []enginetest.Fault{test.fault}})
				err := tryContainer(t.Context(), e)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if n := e.Live(); n != 0 {
					t.Errorf("%d containers are left", n)
				}
			})
		})
	}
}
