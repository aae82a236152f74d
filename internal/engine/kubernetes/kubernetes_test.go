package kubernetes_test

import (
	"os"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/kubernetes"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// What the suite checks only where it is.
var _ interface {
	bench.Cleaner
	bench.ProcessReporter
	bench.Addresser
	bench.ImageFinder
} = (*kubernetes.Engine)(nil)

// TestConformanceOnRealCluster runs against a node of the cluster whose kubeconfig TARE_TEST_CLUSTER names.
func TestConformanceOnRealCluster(t *testing.T) {
	config := os.Getenv("TARE_TEST_CLUSTER")
	if config == "" {
		t.Skip("TARE_TEST_CLUSTER names no kubeconfig")
	}
	unsupported := []enginetest.Feature{
		enginetest.NetworkNone, enginetest.NetworkMacvlan, enginetest.NetworkSlirp, enginetest.NetworkPasta,
		enginetest.TmpfsMount, enginetest.UserNS, enginetest.StorageVolume, enginetest.StorageTmpfs, enginetest.ForeignData,
		enginetest.ShmSize, enginetest.ReachPublished, enginetest.ReachSocket, enginetest.PidsLimit, enginetest.CPUSet,
		enginetest.SeccompDocker,
	}
	if lacks, err := readback.Unavailable(readback.Self); err != nil || lacks != 0 {
		unsupported = append(unsupported, enginetest.Privileged)
	}
	enginetest.Run(t, enginetest.Options{
		Open: func(_ testing.TB, s enginetest.Env) bench.Engine {
			return kubernetes.New(kubernetes.Config{
				Name: "kubernetes", Run: s.Run, Dir: s.Dir, Images: s.Images, Kubeconfig: config, Node: "node1",
				Endpoint: "unix:///run/tare-cluster/node1/containerd.sock",
			})
		},
		Unsupported: unsupported,
	})
}
