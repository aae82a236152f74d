package cri_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/cri"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// What the suite checks only where it is.
var _ interface {
	bench.Cleaner
	bench.Execer
	bench.ProcessReporter
	bench.Addresser
	bench.Sandboxer
	bench.Stopper
} = (*cri.Engine)(nil)

// TestConformance runs against the server at TARE_TEST_CRI, or that which tare
// would find.
func TestConformance(t *testing.T) {
	config := cri.Config{
		Name: "cri", Run: "probe", Endpoint: os.Getenv("TARE_TEST_CRI"), PauseImage: os.Getenv("TARE_TEST_CRI_PAUSE"),
	}
	info, err := cri.New(config).Probe(t.Context())
	enginetest.Require(t, "cri", err)
	unsupported := []enginetest.Feature{
		enginetest.NetworkNone, enginetest.NetworkMacvlan, enginetest.NetworkSlirp, enginetest.NetworkPasta,
		enginetest.TmpfsMount, enginetest.UserNS, enginetest.StorageVolume, enginetest.StorageTmpfs, enginetest.ForeignData,
		enginetest.ShmSize,
	}
	if !has(info, "pod network", "bridge") {
		unsupported = append(unsupported, enginetest.NetworkBridge, enginetest.ReachBridge, enginetest.ReachPeer)
	}
	if !has(info, "pod ports", "portmap") {
		unsupported = append(unsupported, enginetest.ReachPublished)
	}
	if h, err := cgroup.Detect("/"); err != nil || h.Version() != cgroup.V2 {
		unsupported = append(unsupported, enginetest.PidsLimit)
	}
	if restricted(t) {
		unsupported = append(unsupported, enginetest.Privileged)
	}
	if losesOutput(info.Version) {
		unsupported = append(unsupported, enginetest.CompleteOutput)
	}
	enginetest.Run(t, enginetest.Options{
		Open: func(_ testing.TB, s enginetest.Env) bench.Engine {
			config := config
			config.Run, config.Dir, config.Images = s.Run, s.Dir, s.Images
			return cri.New(config)
		},
		Unsupported: unsupported,
	})
}

// Who prepares side by side finds one image for pods, made once.
func TestPauseImageIsMadeOnce(t *testing.T) {
	s := enginetest.NewEnv(t, imagetest.Library(t))
	e := cri.New(cri.Config{
		Name: "cri", Run: s.Run, Dir: s.Dir, Images: s.Images,
		Endpoint: os.Getenv("TARE_TEST_CRI"), PauseImage: os.Getenv("TARE_TEST_CRI_PAUSE"),
	})
	_, err := e.Probe(t.Context())
	enginetest.Require(t, "cri", err)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := e.Prepare(t.Context(), bench.Spec{Argv: []string{agent.Path, "exit", "0"}}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// losesOutput knows the containerds that close a container's output before
// they have read it to its end (mended in 1.6.22 and 1.7.3).
func losesOutput(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &major, &minor, &patch); n < 3 || major != 1 {
		return false
	}
	return minor < 6 || minor == 6 && patch < 22 || minor == 7 && patch < 3
}

// has reports whether the server has said a fact of itself.
func has(info bench.EngineInfo, key, value string) bool {
	return slices.Contains(info.Facts, bench.Label{Key: key, Value: value})
}

// restricted reports whether this machine withholds capabilities even from
// root, and so from a server that was started on it.
func restricted(t *testing.T) bool {
	t.Helper()
	lacks, err := readback.Unavailable(readback.Self)
	if err != nil {
		t.Fatal(err)
	}
	return lacks != 0
}
