package kube_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// TestOnRealCluster tries every call on the cluster whose kubeconfig TARE_TEST_CLUSTER names: "scripts/cluster up"
// prints one.
func TestOnRealCluster(t *testing.T) {
	config := os.Getenv("TARE_TEST_CLUSTER")
	if config == "" {
		t.Skip("TARE_TEST_CLUSTER names no kubeconfig")
	}
	c, err := kube.Open(kube.Options{Kubeconfig: config, Tool: "tare/test", Trouble: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	v, err := c.Version(ctx)
	if err != nil || v.Major != 1 || v.Minor < 25 {
		t.Fatalf("version %+v, %v", v, err)
	}
	nodes, err := c.Nodes(ctx, "kubernetes.io/os=linux,type!=kwok")
	if err != nil || len(nodes) == 0 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	node := &nodes[0]
	memory, ok := node.Status.Allocatable["memory"].Value()
	ready := kube.ConditionOf(node.Status.Conditions, "Ready")
	if !ok || memory < 1<<20 || node.Status.Info.Kernel == "" || ready == nil || ready.Status != "True" {
		t.Errorf("a node is %+v", node)
	}
	jobs := kube.Access{Verb: "create", Group: "batch", Resource: "jobs", Namespace: "default"}
	if yes, _, err := c.Allowed(ctx, jobs); !yes || err != nil {
		t.Errorf("an administrator may make Jobs: %v, %v", yes, err)
	}
	root := &kube.ConfigMap{Meta: kube.Meta{Name: "tare-test-kube"}}
	root.Labels = map[string]string{kube.LabelRun: root.Name}
	root.Data = map[string]string{"plan": "x"}
	if err := c.Create(ctx, root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), root) })
	realJob(t, c, root, node.Name)
	if err := c.Delete(ctx, root); err != nil {
		t.Error(err)
	}
	if err := c.Get(ctx, root); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("after its removal: %v", err)
	}
}

// realJob runs a Job that the root owns, from a dry run to its log.
func realJob(t *testing.T, c *kube.Client, root *kube.ConfigMap, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	j := job("tare-test-kube", node)
	j.Labels[kube.LabelRun], j.Spec.Template.Labels[kube.LabelRun] = root.Name, root.Name
	j.Owners = []kube.Owner{kube.OwnerOf(root)}
	container := &j.Spec.Template.Spec.Containers[0]
	container.Image, container.PullPolicy = "tare.test/busybox:1", "Never"
	container.Command = []string{"sh", "-c", "echo on $NODE; printf digest >/dev/termination-log; exit 3"}
	never := int32(0)
	j.Spec.BackoffLimit = &never
	dry := *j
	if err := c.DryRun(ctx, &dry); err != nil || dry.Spec.Template.Spec.DNSPolicy == "" {
		t.Fatalf("a dry run: %v, %+v", err, dry.Spec.Template.Spec)
	}
	if err := c.Get(ctx, &dry); !errors.Is(err, kube.ErrNotFound) {
		t.Fatalf("a dry run has made something: %v", err)
	}
	if err := c.Create(ctx, j); err != nil {
		t.Fatal(err)
	}
	ended := errors.New("ended")
	var pod *kube.Pod
	err := c.Watch(ctx, "", kube.LabelRun+"="+root.Name, func(change kube.Change) error {
		pod = change.Pod
		t.Logf("%s is %s on %q", pod.Name, pod.Status.Phase, pod.Spec.Node)
		if pod.Status.Phase == "Failed" || pod.Status.Phase == "Succeeded" {
			return ended
		}
		return nil
	})
	if !errors.Is(err, ended) {
		t.Fatal(err)
	}
	status := pod.ContainerOf("tare")
	if status == nil || status.State.Terminated == nil || status.State.Terminated.ExitCode != 3 ||
		status.State.Terminated.Message != "digest" || status.ImageID == "" || pod.Spec.Node != node {
		t.Errorf("the pod ended as %+v", pod.Status)
	}
	if text := readLog(t, c, pod.Name, 1<<20); text != "on "+node+"\n" {
		t.Errorf("the log is %q", text)
	}
}
