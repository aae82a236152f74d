package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// differences are what a cluster has made of a pod that was asked for, where it matters to a measurement or to what was
// promised. The texts are foreign.
func differences(asked, got kube.PodSpec) []string {
	var d []string
	add := func(format string, args ...any) { d = append(d, fmt.Sprintf(format, args...)) }
	var own *kube.Container
	for i := range got.Containers {
		if c := &got.Containers[i]; c.Name == container {
			own = c
		} else {
			add("a container %q beside it (%s)", c.Name, c.Image)
		}
	}
	for _, c := range got.InitContainers {
		add("a container %q before it (%s)", c.Name, c.Image)
	}
	if own == nil {
		return append(d, "its own container is gone")
	}
	want := asked.Containers[0]
	if own.Image != want.Image {
		add("another image: %s", own.Image)
	}
	d = append(d, resources("limit", want.Resources.Limits, own.Resources.Limits)...)
	d = append(d, resources("request", want.Resources.Requests, own.Resources.Requests)...)
	if !slices.Equal(own.Args, want.Args) || !slices.Equal(own.Command, want.Command) {
		add("another command")
	}
	env := map[string]bool{}
	for _, e := range want.Env {
		env[e.Name] = true
	}
	for _, e := range own.Env {
		if !env[e.Name] {
			add("a variable %q in its environment", e.Name)
		}
	}
	for _, t := range got.Tolerations {
		known := slices.ContainsFunc(asked.Tolerations, func(a kube.Toleration) bool { return same(a, t) })
		if !known && !usual(t) {
			add("it tolerates %s:%s", t.Key, t.Effect)
		}
	}
	for _, field := range []struct{ name, asked, got string }{
		{"priority class", asked.PriorityClass, got.PriorityClass},
		{"runtime class", asked.RuntimeClass, got.RuntimeClass},
	} {
		if field.asked != field.got {
			add("%s %q", field.name, field.got)
		}
	}
	if got.HostNetwork != asked.HostNetwork {
		add("the network of the node")
	}
	if got.HostPID != asked.HostPID {
		add("the processes of the node")
	}
	return d
}

func same(a, b kube.Toleration) bool {
	exists := a.Operator == "Exists"
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && exists == (b.Operator == "Exists")
}

// usual reports whether a toleration is one that Kubernetes gives to every pod, or to each with a request of memory.
func usual(t kube.Toleration) bool {
	return slices.Contains([]string{
		"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/memory-pressure",
	}, t.Key)
}

// resources compares amounts by what they are, not by how they are written.
func resources(what string, asked, got kube.Resources) []string {
	var d []string
	names := slices.AppendSeq(slices.Collect(maps.Keys(asked)), maps.Keys(got))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, wanted := asked[name]
		g, has := got[name]
		av, _ := a.Value()
		gv, _ := g.Value()
		switch {
		case wanted && !has:
			d = append(d, fmt.Sprintf("no %s of %s", what, name))
		case !wanted:
			d = append(d, fmt.Sprintf("a %s of %s: %s", what, name, g))
		case av != gv:
			d = append(d, fmt.Sprintf("a %s of %s: %s instead of %s", what, name, g, a))
		}
	}
	return d
}
