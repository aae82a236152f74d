package containerd_test

import (
	"os/exec"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// TestConformance runs the suite on whichever containerd CONTAINERD_ADDRESS
// names, with each OCI runtime that is installed and shows its processes to the
// host. See TestSandbox for the one that does not.
func TestConformance(t *testing.T) {
	_, err := containerd.New(containerd.Config{Name: "containerd"}).Probe(t.Context())
	enginetest.Require(t, "containerd", err)
	runtimes := []string{"runc"} // TestFactors asks for another one
	if !testing.Short() {
		runtimes = append(runtimes, "crun", "youki")
	}
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			_, err := exec.LookPath(runtime)
			enginetest.Require(t, runtime, err)
			enginetest.Run(t, enginetest.Options{
				Open: func(_ testing.TB, s enginetest.Env) bench.Engine {
					return containerd.New(containerd.Config{
						Name: "containerd", Run: s.Run, Dir: s.Dir, Images: s.Images, Runtime: runtime,
					})
				},
				Unsupported: append(enginetest.BareNetworks(), enginetest.UserNS, enginetest.StorageVolume),
			})
		})
	}
}
