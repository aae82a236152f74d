// Package localtest opens engines of this machine for tests of workloads.
package localtest

import (
	"context"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// Native returns the engine of plain processes, which is closed after the test.
func Native(t testing.TB) *native.Engine {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := native.New(native.Config{Name: "native", Run: env.Run, Dir: env.Dir, Images: env.Images})
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Docker returns this machine's Docker, which is closed after the test. The test ends
// here if there is none (see enginetest.Require).
func Docker(t testing.TB) bench.Engine {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := docker.New(docker.Config{Name: "docker", Run: env.Run, Dir: env.Dir, Images: env.Images})
	enginetest.Use(t, e)
	return e
}
