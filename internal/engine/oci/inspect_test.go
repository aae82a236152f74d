package oci

import (
	"errors"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// What is not as it was asked for is not passed off as that.
func TestInspectMismatch(t *testing.T) {
	for name, spoil := range map[string]func(c *container){
		"image":  func(c *container) { c.bundle.base += "-of-another" },
		"cgroup": func(c *container) { c.bundle.cgroup += "-of-another" },
	} {
		t.Run(name, func(t *testing.T) {
			env := enginetest.NewEnv(t, imagetest.Library(t))
			e := New(Config{Name: "runc", Run: env.Run, Dir: env.Dir, Images: env.Images})
			_, err := e.Probe(t.Context())
			enginetest.Require(t, "runc", err)
			c, err := e.Create(t.Context(), bench.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			own := c.(*container)
			base, group := own.bundle.base, own.bundle.cgroup
			spoil(own)
			if a, err := c.Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
				t.Errorf("Inspect = %+v, %v; want bench.ErrMismatch", a, err)
			}
			own.bundle.base, own.bundle.cgroup = base, group
			if err := errors.Join(c.Remove(t.Context()), e.Close(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}
