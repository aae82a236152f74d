package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/fleet"
)

// kubectl runs the tool that scripts/cluster has built.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("../../scripts/cluster", append([]string{"kubectl"}, args...)...).Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// limitNode gives all that a node's pods do a share of a CPU, as a quota in thousandths, until the test ends.
func limitNode(t *testing.T, node string, thousandths int) {
	t.Helper()
	file, text, none := "/sys/fs/cgroup/cpu/tk-"+node+"/cpu.cfs_quota_us", fmt.Sprint(thousandths*100), "-1"
	if _, err := os.Stat(file); err != nil { // control groups of version 2
		file, text, none = "/sys/fs/cgroup/tk-"+node+"/cpu.max", fmt.Sprintf("%d 100000", thousandths*100), "max 100000"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, []byte(none), 0o600); err != nil {
			t.Error(err)
		}
	})
}

// On a real Kubernetes whose nodes share one machine, the node with a fifth of a CPU is found beside those that have
// 3.5 times as much, round trips are measured, and nothing is left. TARE_TEST_CLUSTER names the kubeconfig that
// "scripts/cluster up" has printed.
func TestFleetOnRealCluster(t *testing.T) {
	config := os.Getenv("TARE_TEST_CLUSTER")
	if config == "" {
		t.Skip("TARE_TEST_CLUSTER names no kubeconfig")
	}
	p := newTestEnv(t)
	p.env = append(p.env, "KUBECONFIG="+config)
	archive := filepath.Join(p.dir, "tare.tar")
	p.must(t, "fleet", "image", "-o", archive, "--name", "localhost/tare:test")
	if out, err := exec.Command("../../scripts/cluster", "load", archive).CombinedOutput(); err != nil {
		t.Fatalf("load the image: %v\n%s", err, out)
	}
	const space = "tare-test-fleet"
	kubectl(t, "create", "namespace", space)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", space, "--wait=false") })
	kubectl(t, "label", "namespace", space, "pod-security.kubernetes.io/enforce=restricted")
	for node, share := range map[string]int{"node1": 700, "node2": 200, "node3": 700} {
		limitNode(t, node, share)
	}
	result := p.begin(t, "fleet", "run", "cpu", "--image", "localhost/tare:test", "--namespace", space, "--rounds", "8",
		"--round", "11s", "--confirm", "0", "--network", "pod", "--yes", "--param", "kernels=integer", "--param", "time=500ms",
	).endWithin(t, 10*testTimeout) // two minutes of it are for the signal to begin
	if result.code != 0 {
		t.Fatalf("exit code %d\n%s", result.code, result.stderr)
	}
	var shown struct {
		shownFleet
		Paths []struct {
			Links  []struct{ Ends []string }
			Losses []struct{ Reason string }
		}
	}
	if err := json.Unmarshal([]byte(p.must(t, "fleet", "show", "--json").stdout), &shown); err != nil {
		t.Fatal(err)
	}
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != 8 {
			t.Errorf("%s is %s after %d rounds: %s", n.Name, n.State, n.Rounds, n.Reason)
		}
		if odd := n.Verdict == "slow" || n.Verdict == "suspect"; odd != (n.Name == "node2") {
			t.Errorf("%s is %s", n.Name, n.Verdict)
		}
		for _, f := range n.Findings {
			if n.Name == "node2" && (f.Low > 0.33 || f.High < 0.24) { // it is 0.286, but for what else runs
				t.Errorf("%s of %s is %v to %v times that of the others", f.Metric, n.Name, f.Low, f.High)
			}
		}
	}
	if len(shown.Paths) != 1 || len(shown.Paths[0].Links) != 3 || len(shown.Paths[0].Losses) != 0 {
		t.Errorf("the paths are %+v, want those of three pairs", shown.Paths)
	}
	if left := kubectl(t, "-n", space, "get", "jobs,pods,configmaps,secrets", "-l", "tare.run", "-o", "name"); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
	if t.Failed() {
		t.Log(result.stdout, result.stderr)
	}
}
