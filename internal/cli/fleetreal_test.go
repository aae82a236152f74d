package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
)

// kubectl runs the tool that scripts/cluster has built.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return kubectlWith(t, "", args...)
}

func kubectlWith(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("../../scripts/cluster", append([]string{"kubectl"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
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

// realCluster is a namespace of a Kubernetes whose nodes have tare's image; level is what its pods may do. Who runs tare
// there has the rights that 'tare fleet rbac' prints, and no others. The kubeconfig of who may give them is the one that
// "scripts/cluster up" has printed, named by TARE_TEST_CLUSTER.
func realCluster(t *testing.T, space, level string) *testEnv {
	t.Helper()
	config := os.Getenv("TARE_TEST_CLUSTER")
	if config == "" {
		t.Skip("TARE_TEST_CLUSTER names no kubeconfig")
	}
	p := newTestEnv(t)
	archive := filepath.Join(p.dir, "tare.tar")
	p.must(t, "fleet", "image", "-o", archive, "--name", "localhost/tare:test")
	if out, err := exec.Command("../../scripts/cluster", "load", archive).CombinedOutput(); err != nil {
		t.Fatalf("load the image: %v\n%s", err, out)
	}
	kubectl(t, "create", "namespace", space)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", space, "--wait=false") })
	kubectl(t, "label", "namespace", space, "pod-security.kubernetes.io/enforce="+level)
	kubectlWith(t, p.must(t, "fleet", "rbac", "--namespace", space).stdout, "apply", "-f", "-")
	const who = "tare-test"
	account := space + ":" + who
	kubectl(t, "-n", space, "create", "serviceaccount", who)
	kubectl(t, "-n", space, "create", "rolebinding", who, "--role=tare-fleet", "--serviceaccount="+account)
	kubectl(t, "create", "clusterrolebinding", space, "--clusterrole=tare-fleet", "--serviceaccount="+account)
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", space) })
	own, limited := kubectl(t, "config", "view", "--raw"), filepath.Join(p.dir, "kubeconfig")
	p.env = append(p.env, "KUBECONFIG="+limited)
	if err := os.WriteFile(limited, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "--kubeconfig", limited, "config", "set-credentials", who, "--token",
		strings.TrimSpace(kubectl(t, "-n", space, "create", "token", who, "--duration", "1h")))
	kubectl(t, "--kubeconfig", limited, "config", "set-context", "--current", "--user", who)
	return p
}

// realArgs are those of a fleet of short rounds on a real cluster: two minutes more are for the signal to begin.
func realArgs(command, space string, more ...string) []string {
	return append([]string{
		"fleet", command, "cpu", "--image", "localhost/tare:test", "--namespace", space, "--rounds", "8", "--confirm", "0",
		"--param", "kernels=integer", "--param", "time=500ms",
	}, more...)
}

// On the nodes themselves, from privileged pods, a container is compared with none. A pod that is killed leaves nothing
// on its node.
func TestFleetHostOnRealCluster(t *testing.T) {
	const space, killed = "tare-test-host", "node3"
	p := realCluster(t, space, "privileged")
	run := p.begin(t, realArgs("run", space, "--host", "--rounds", "4", "--round", "20s")...)
	name := ""
	await(t, 5*testTimeout, "the pod of "+killed+" has measured a round", func() bool {
		name = strings.TrimSpace(kubectl(t, "-n", space, "get", "pods", "-o", "name", "--field-selector",
			"spec.nodeName="+killed+",status.phase=Running"))
		return name != "" && strings.Count(kubectl(t, "-n", space, "logs", name), " block ") >= 3
	})
	on := processesOf(t, "--outside-of")
	kubectl(t, "-n", space, "delete", name, "--grace-period=0", "--force")
	await(t, testTimeout, "tare ends on the node of the pod that is killed", func() bool {
		return len(processesOf(t, "--outside-of")) < len(on)
	})
	result := run.endWithin(t, 10*testTimeout)
	if result.code != 3 {
		t.Fatalf("exit code %d, want 3: a node is gone\n%s", result.code, result.stderr)
	}
	shown := p.shownFleet(t)
	gone := slices.IndexFunc(shown.Nodes, func(n shownNode) bool { return n.Name == killed })
	if gone < 0 || shown.Nodes[gone].State != string(fleet.Gone) || shown.Nodes[gone].Rounds < 1 {
		t.Fatalf("the node whose pod was killed: %+v", shown.Nodes)
	}
	shown.Nodes = slices.Delete(shown.Nodes, gone, gone+1)
	wantCosts(t, shown, "containerd", 4, result.stderr)
	// The nodes share this machine's engines, and the place where tare keeps what it is at.
	if left := p.must(t, "clean", "--dry-run", "--json", "--state", "/var/lib/tare").stdout; strings.Contains(left, shown.Fleet) {
		t.Errorf("left on the nodes:\n%s", left)
	}
	if left := processesOf(t, "--outside-of"); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
}

// processesOf are those that have an argument.
func processesOf(t *testing.T, argument string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended
		if slices.Contains(strings.Split(string(text), "\x00"), argument) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// await waits until something is so.
func await(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(500 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("within %v it is not so that %s", limit, what)
		}
	}
}

// shownReal is what is shown of a fleet and its paths.
func (p *testEnv) shownReal(t *testing.T, space string) (nodes shownFleet, paths []shownPath) {
	t.Helper()
	var shown struct {
		shownFleet
		Paths []shownPath
	}
	if err := json.Unmarshal([]byte(p.must(t, "fleet", "show", "--json").stdout), &shown); err != nil {
		t.Fatal(err)
	}
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != 8 {
			t.Errorf("%s is %s after %d rounds: %s", n.Name, n.State, n.Rounds, n.Reason)
		}
	}
	for _, path := range shown.Paths {
		if len(path.Links) != 3 || len(path.Losses)+len(path.Silent) != 0 {
			t.Errorf("the paths are %+v, want those of three pairs", path)
		}
	}
	if left := kubectl(t, "-n", space, "get", "jobs,pods,configmaps,secrets", "-l", "tare.run", "-o", "name"); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
	return shown.shownFleet, shown.Paths
}

// On a real Kubernetes whose nodes share one machine, the node with a fifth of a CPU is found beside those that have
// 3.5 times as much, round trips are measured, and nothing is left.
func TestFleetOnRealCluster(t *testing.T) {
	const space = "tare-test-fleet"
	p := realCluster(t, space, "restricted")
	for node, share := range map[string]int{"node1": 700, "node2": 200, "node3": 700} {
		limitNode(t, node, share)
	}
	refused := p.tare(t, realArgs("plan", space, "--network", "host")...)
	if hint := "enforce=privileged"; refused.code == 0 || !strings.Contains(refused.stdout+refused.stderr, hint) {
		t.Errorf("the hosts' network in a restricted namespace: exit code %d\n%s%s", refused.code, refused.stdout,
			refused.stderr)
	}
	result := p.begin(t, realArgs("run", space, "--round", "11s", "--network", "pod", "--yes")...).endWithin(t, 10*testTimeout)
	if result.code != 0 {
		t.Fatalf("exit code %d\n%s", result.code, result.stderr)
	}
	shown, paths := p.shownReal(t, space)
	for _, n := range shown.Nodes {
		if odd := n.Verdict == "slow" || n.Verdict == "suspect"; odd != (n.Name == "node2") {
			t.Errorf("%s is %s", n.Name, n.Verdict)
		}
		for _, f := range n.Findings {
			if n.Name == "node2" && (f.Low > 0.33 || f.High < 0.24) { // it is 0.286, but for what else runs
				t.Errorf("%s of %s is %v to %v times that of the others", f.Metric, n.Name, f.Low, f.High)
			}
		}
	}
	if len(paths) != 1 {
		t.Errorf("the paths are %+v, want those of one network", paths)
	}
	if t.Failed() {
		t.Log(result.stdout, result.stderr)
	}
}

// A link that lets 400 kbit/s of datagrams through delays each one of 106 bytes by 2.12 ms, and of TCP it lets 50 Mbit/s
// through, in one direction: its node has slow round trips and little throughput over both networks, by a pod in each.
func TestFleetPathsOnRealCluster(t *testing.T) {
	const space, delay, rate = "tare-test-paths", 2.12e-3, 50e6 / 8
	p := realCluster(t, space, "privileged")
	tc := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
			t.Fatalf("tc %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tc("qdisc", "add", "dev", "tkv3", "root", "handle", "1:", "htb", "default", "3")
	t.Cleanup(func() { tc("qdisc", "del", "dev", "tkv3", "root") })
	for _, class := range []string{
		"classid 1:1 htb rate 400kbit burst 1600 cburst 1600", "classid 1:2 htb rate 50mbit", "classid 1:3 htb rate 10gbit",
	} {
		tc(append([]string{"class", "add", "dev", "tkv3", "parent", "1:"}, strings.Fields(class)...)...)
	}
	for _, filter := range []string{
		"protocol 17 0xff flowid 1:1", "protocol 6 0xff match ip dport 7673 0xffff flowid 1:2",
		"protocol 6 0xff match ip sport 7673 0xffff flowid 1:2",
	} {
		tc(append(strings.Fields("filter add dev tkv3 parent 1: protocol ip u32 match ip"), strings.Fields(filter)...)...)
	}
	result := p.begin(t, realArgs("run", space, "--round", "17s", "--network", "pod,host", "--throughput", "--yes")...,
	).endWithin(t, 10*testTimeout)
	if result.code != 0 {
		t.Fatalf("exit code %d\n%s", result.code, result.stderr)
	}
	_, paths := p.shownReal(t, space)
	if len(paths) != 4 || paths[0].Network != "pod" || paths[0].Cost == nil || paths[1].Network != "host" ||
		!paths[2].Throughput || !paths[3].Throughput {
		t.Fatalf("the paths are %+v, want round trips and throughput of both networks", paths)
	}
	for _, path := range paths {
		for _, n := range path.Nodes {
			if (n.Verdict == "slow") != (n.Name == "node3") {
				t.Errorf("%s network: %s is %s", path.Network, n.Name, n.Verdict)
			}
		}
		for _, l := range path.Links {
			planted := slices.Contains(l.Ends, "node3")
			if !path.Throughput && (planted != (l.Seconds > delay*0.9) || l.Seconds > 2*delay) {
				t.Errorf("%s network: the round trip of %v takes %v s", path.Network, l.Ends, l.Seconds)
			}
			// The time of a byte is the mean of both directions, of which only one is slow.
			if path.Throughput && (planted != (l.Rate < 2*rate*1.1) || l.Rate < rate) {
				t.Errorf("%s network: the throughput of %v is %v bytes per second", path.Network, l.Ends, l.Rate)
			}
		}
	}
	if t.Failed() {
		t.Log(p.must(t, "fleet", "show", "--all").stdout, result.stderr)
	}
}
