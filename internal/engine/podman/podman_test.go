package podman_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

func TestConformance(t *testing.T) {
	info, err := podman.New(podman.Config{Name: "podman"}).Probe(t.Context())
	enginetest.Require(t, "podman", err)
	enginetest.Run(t, enginetest.Options{
		Open: func(_ testing.TB, s enginetest.Env) bench.Engine {
			return podman.New(podman.Config{Name: "podman", Run: s.Run, Dir: s.Dir, Images: s.Images})
		},
		Unsupported: unsupported(t, info),
		// It cleans up after a container with a user namespace later than it says.
		KnownFault: func(err error) bool { return strings.Contains(err.Error(), "device or resource busy") },
	})
}

// unsupported lists what Podman lacks here. That of an ordinary user has control
// groups only where they are delegated to it.
func unsupported(t *testing.T, info bench.EngineInfo) []enginetest.Feature {
	t.Helper()
	if !slices.Contains(info.Facts, bench.Label{Key: "rootless", Value: "true"}) {
		lacks := append(absent(), enginetest.NetworkPasta)
		if restricted(t) {
			lacks = append(lacks, enginetest.Privileged)
		}
		return lacks
	}
	lacks := append(absent(), enginetest.NetworkMacvlan, enginetest.ReachBridge)
	if slices.Contains(info.Facts, bench.Label{Key: "cgroup", Value: "v1 cgroupfs"}) {
		lacks = append(lacks, enginetest.CPUQuota, enginetest.CPUSet, enginetest.MemoryLimit, enginetest.PidsLimit)
	}
	if unix.Access("/dev/net/tun", unix.R_OK|unix.W_OK) != nil {
		lacks = append(lacks, enginetest.OwnNetworks()...)
	}
	return lacks
}

// absent are the networks whose program is not on this machine.
func absent() (lacks []enginetest.Feature) {
	for program, feature := range map[string]enginetest.Feature{
		"slirp4netns": enginetest.NetworkSlirp, "pasta": enginetest.NetworkPasta,
	} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, feature)
		}
	}
	return lacks
}

// restricted reports whether this machine withholds capabilities even from
// root, and so from a service that was started on it.
func restricted(t *testing.T) bool {
	t.Helper()
	lacks, err := readback.Unavailable(readback.Self)
	if err != nil {
		t.Fatal(err)
	}
	return lacks != 0
}
