package compose

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/localtest"
)

// BenchmarkOverhead compares up and down of a trial, while it watches for readiness, with the bare
// commands in the same environment: alternately, by each compose program that is here.
func BenchmarkOverhead(b *testing.B) {
	for _, x := range []struct{ engine, tool string }{
		{"docker", dockerPlugin}, {"docker", dockerCompose}, {"podman", podmanCompose},
	} {
		b.Run(x.engine+" by "+x.tool, func(b *testing.B) { overhead(b, x.engine, x.tool) })
	}
}

func overhead(b *testing.B, engine, tool string) {
	b.Helper()
	env := enginetest.NewEnv(b, imagetest.Library(b))
	var e bench.Engine = docker.New(docker.Config{Name: engine, Run: env.Run, Dir: env.Dir, Images: env.Images})
	if engine == "podman" {
		e = podman.New(podman.Config{Name: engine, Run: env.Run, Dir: env.Dir, Images: env.Images})
	}
	enginetest.Use(b, e)
	params := map[string]string{"tool": tool, "services": "3", "timeout": "1m"}
	p, err := newProject(b.Context(), bench.Task{
		Engine: e, Client: localtest.Native(b), Params: params, Run: env.Run, Dir: b.TempDir(),
	})
	if errors.Is(err, bench.ErrUnsupported) {
		b.Skip(err)
	}
	must(b, err)
	reset := func() {
		b.Helper()
		must(b, errors.Join(p.clear(b.Context(), false), p.Reset(b.Context()))) // a down may leave the network
	}
	b.Cleanup(func() { must(b, errors.Join(p.clear(context.Background(), false), p.Remove(context.Background()))) })
	clock := &supervise.SetupClock{}
	tare := func(b *testing.B) time.Duration {
		b.Helper()
		reset()
		up, _, err := p.up(b.Context(), bench.MeterOf(clock, bench.Discard{}), p.program)
		must(b, err)
		down, err := p.program.down(b.Context(), clock)
		must(b, err)
		return up.Duration() + down.Duration()
	}
	bare := func(b *testing.B) (took time.Duration) {
		b.Helper()
		reset()
		for _, command := range [][]string{{"up", "-d"}, {"down"}} {
			cmd := exec.Command(p.program.argv[0], p.program.arguments(command...)...)
			cmd.Env = p.program.env
			took += enginetest.Time(b, func() error { return cmd.Run() })
		}
		return took
	}
	enginetest.Overhead(b, tare, bare)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
