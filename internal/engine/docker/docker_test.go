package docker_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

var (
	_ bench.Engine          = (*docker.Engine)(nil)
	_ bench.Pauser          = (*docker.Engine)(nil)
	_ bench.Execer          = (*docker.Engine)(nil)
	_ bench.Signaler        = (*docker.Engine)(nil)
	_ bench.Stopper         = (*docker.Engine)(nil)
	_ bench.ProcessReporter = (*docker.Engine)(nil)
	_ bench.Addresser       = (*docker.Engine)(nil)
	_ bench.Restarter       = (*docker.Engine)(nil)
	_ bench.Cleaner         = (*docker.Engine)(nil)
	_ bench.Verifier        = (*docker.Engine)(nil)
	_ bench.ImageLoader     = (*docker.Engine)(nil)
	_ bench.Projecter       = (*docker.Engine)(nil)
	_ bench.Composable      = (*docker.Engine)(nil)
)

func TestConformance(t *testing.T) {
	_, err := docker.New(docker.Config{Name: "docker"}).Probe(t.Context())
	enginetest.Require(t, "docker", err)
	unsupported := []enginetest.Feature{enginetest.UserNS, enginetest.NetworkSlirp, enginetest.NetworkPasta}
	if restricted(t) {
		unsupported = append(unsupported, enginetest.Privileged)
	}
	enginetest.Run(t, enginetest.Options{
		Open: func(_ testing.TB, s enginetest.Env) bench.Engine {
			return docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
		Unsupported: unsupported,
	})
}

// restricted reports whether this machine withholds capabilities even from
// root, and so from an engine that was started on it.
func restricted(t *testing.T) bool {
	t.Helper()
	lacks, err := readback.Unavailable(readback.Self)
	if err != nil {
		t.Fatal(err)
	}
	return lacks != 0
}
