package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// Labels that Kubernetes gives to nodes.
const (
	nodeZone = "topology.kubernetes.io/zone"
	nodeType = "node.kubernetes.io/instance-type"
	byArch   = "arch" // in Fleet.GroupBy: no label
)

// DefaultGroups is what nodes are grouped by if nothing else is asked for.
var DefaultGroups = []string{byArch, nodeType}

// choose divides the cluster's nodes into those of the fleet and those left out.
func choose(all []kube.Node, r *Request) (in []fleet.Node, out []fleet.Omission) {
	slices.SortFunc(all, func(a, b kube.Node) int { return strings.Compare(a.Name, b.Name) })
	asked := map[string]bool{}
	for _, name := range r.Nodes {
		asked[name] = true
	}
	for i := range all {
		n := &all[i]
		if len(r.Nodes) > 0 && !asked[n.Name] {
			continue
		}
		delete(asked, n.Name) // what stays was not found
		if why := unfit(n, r); why != "" {
			out = append(out, fleet.Omission{Node: n.Name, Reason: why})
			continue
		}
		in = append(in, describe(n, r.Fleet.GroupBy))
	}
	for _, name := range r.Nodes {
		if asked[name] {
			delete(asked, name)
			out = append(out, fleet.Omission{Node: name, Reason: "the cluster has no such node, or the selector leaves it out"})
		}
	}
	return in, out
}

// architectures are those that there are programs of tare for.
func architectures() []string { return []string{"amd64", "arm64"} }

// unfit is why a node cannot be measured; "" = it can.
func unfit(n *kube.Node, r *Request) string {
	if n.Spec.Unschedulable {
		return "cordoned"
	}
	ready := kube.ConditionOf(n.Status.Conditions, "Ready")
	if ready == nil || ready.Status != "True" {
		why := "NotReady"
		if ready != nil && ready.Message != "" {
			why += ": " + ready.Message
		}
		return why
	}
	if os := n.Status.Info.System; os != "" && os != "linux" {
		return "its system is " + os
	}
	if arch := n.Status.Info.Arch; arch != "" && !slices.Contains(architectures(), arch) {
		return fmt.Sprintf("architecture %s: tare runs on %s", arch, strings.Join(architectures(), " and "))
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != "PreferNoSchedule" && !tolerated(t, r.Pod.Tolerations) {
			return fmt.Sprintf("tainted %s: --toleration %s", taintText(t), t.Key)
		}
	}
	if m, ok := n.Status.Allocatable["memory"].Value(); ok && m < float64(r.Pod.Memory) {
		return fmt.Sprintf("too little memory: %d MiB for pods, and %d MiB are asked for", int64(m)>>20, r.Pod.Memory>>20)
	}
	if c, ok := n.Status.Allocatable["cpu"].Value(); ok && c < float64(r.Pod.CPUs) {
		return fmt.Sprintf("too few CPUs: %g for pods, and %d are asked for", c, r.Pod.CPUs)
	}
	return ""
}

func taintText(t kube.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// tolerated follows the rules of the scheduler.
func tolerated(t kube.Taint, all []kube.Toleration) bool {
	return slices.ContainsFunc(all, func(o kube.Toleration) bool {
		exists := o.Operator == "Exists"
		return (o.Effect == "" || o.Effect == t.Effect) && (o.Key == t.Key || o.Key == "" && exists) &&
			(exists || o.Value == t.Value)
	})
}

// describe is a node as a fleet keeps it.
func describe(n *kube.Node, by []string) fleet.Node {
	f := fleet.Node{
		Name: n.Name, Zone: n.Labels[nodeZone], InstanceType: n.Labels[nodeType], Arch: n.Status.Info.Arch,
		Kernel: n.Status.Info.Kernel, OS: n.Status.Info.OS, Runtime: n.Status.Info.Runtime,
	}
	if c, ok := n.Status.Allocatable["cpu"].Value(); ok && c < 1<<20 {
		f.CPUs = int(c)
	}
	if m, ok := n.Status.Allocatable["memory"].Value(); ok && m < 1<<62 {
		f.Memory = int64(m)
	}
	var group []string
	for _, key := range by {
		value := n.Labels[key]
		if key == byArch {
			value = f.Arch
		}
		if value != "" {
			group = append(group, value)
		}
	}
	f.Group = strings.Join(group, ", ")
	return f
}
