package docker_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/apitest"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// BenchmarkOverhead compares create, start, wait and remove through the driver
// with a bare loop over the same API calls, with the body that the driver sends.
func BenchmarkOverhead(b *testing.B) {
	env := enginetest.NewEnv(b, imagetest.Library(b))
	e := docker.New(docker.Config{Name: "docker", Run: env.Run, Dir: env.Dir, Images: env.Images})
	enginetest.Use(b, e)
	bare := apitest.BareLoop{
		Socket: "/var/run/docker.sock",
		Root:   "/v1.41",
		Create: `{"Image":"tare.local/` + env.Run + `/docker/agent:latest","Entrypoint":["` + agent.Path +
			`"],"Cmd":["exit","0"],` +
			`"Labels":{"tare.run":"` + env.Run + `"},"HostConfig":{"NetworkMode":"none"}}`,
		Calls: []string{
			"POST /containers/ID/start", "POST /containers/ID/wait?condition=not-running", "DELETE /containers/ID?force=1&v=1",
		},
	}
	spec := bench.Spec{Argv: []string{agent.Path, "exit", "0"}}
	enginetest.Overhead(b, enginetest.DriverSide(e, spec), bare.Loop())
}
