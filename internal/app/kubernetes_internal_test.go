package app

import (
	"os"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// TestKubernetesOnRealCluster runs the suite of engines with pods of the cluster whose kubeconfig TARE_TEST_CLUSTER names,
// on the node whose network namespace this process is in: node1. It is here because two drivers work together.
func TestKubernetesOnRealCluster(t *testing.T) {
	config := os.Getenv("TARE_TEST_CLUSTER")
	if config == "" {
		t.Skip("TARE_TEST_CLUSTER names no kubeconfig")
	}
	unsupported := []enginetest.Feature{
		enginetest.NetworkNone, enginetest.NetworkMacvlan, enginetest.NetworkSlirp, enginetest.NetworkPasta,
		enginetest.TmpfsMount, enginetest.UserNS, enginetest.StorageVolume, enginetest.StorageTmpfs, enginetest.ForeignData,
		enginetest.ShmSize, enginetest.ReachPublished, enginetest.PidsLimit, enginetest.CPUSet, enginetest.SeccompDocker,
	}
	if lacks, err := readback.Unavailable(readback.Self); err != nil || lacks != 0 {
		unsupported = append(unsupported, enginetest.Privileged)
	}
	open := func(t testing.TB, s enginetest.Env) bench.Engine {
		site := &EngineSite{run: s.Run, dir: s.Dir, Images: s.Images}
		e, err := site.Engine(Instance{Name: "kubernetes", Driver: "kubernetes", Options: map[string]string{
			"kubeconfig": config, "node": "node1", "endpoint": "unix:///run/tare-cluster/node1/containerd.sock",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	info, err := open(t, enginetest.Env{Run: "probe"}).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Fact("runtime of pods") == "containerd 1.6.20~ds1" { // mended in 1.6.22
		unsupported = append(unsupported, enginetest.CompleteOutput)
	}
	enginetest.Run(t, enginetest.Options{Open: open, Unsupported: unsupported})
}
