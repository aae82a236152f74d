package compose

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/localtest"
)

// BenchmarkOverhead compares up and down of a trial, while it watches for readiness, with the bare
// commands in the same environment.
func BenchmarkOverhead(b *testing.B) {
	env := enginetest.NewEnv(b, imagetest.Library(b))
	e := docker.New(docker.Config{Name: "docker", Run: env.Run, Dir: env.Dir, Images: env.Images})
	enginetest.Use(b, e)
	params := map[string]string{"tool": dockerCompose, "services": "3", "timeout": "1m"}
	p, err := newProject(b.Context(), bench.Task{
		Engine: e, Client: localtest.Native(b), Params: params, Run: env.Run, Dir: b.TempDir(),
	})
	must(b, err)
	b.Cleanup(func() { must(b, p.Remove(b.Context())) })
	clock := &supervise.SetupClock{}
	tare := func(b *testing.B) time.Duration {
		b.Helper()
		must(b, p.Reset(b.Context()))
		up, _, err := p.up(b.Context(), bench.MeterOf(clock, bench.Discard{}), p.program)
		must(b, err)
		down, err := p.program.down(b.Context(), clock)
		must(b, err)
		return up.Duration() + down.Duration()
	}
	bare := func(b *testing.B) (took time.Duration) {
		b.Helper()
		must(b, p.Reset(b.Context()))
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
