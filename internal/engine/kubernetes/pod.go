package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

const (
	containerName = "tare"
	gate          = "tare/start"
	lookEvery     = 100 * time.Millisecond // whether a leftover has gone
	// grace is what processes have to end when a pod is removed, in seconds. The pod is gone only when the kubelet has
	// ended them, which with 0 it would do later.
	grace = 1
)

// check reports the parts of spec that a pod cannot have, or that tare does not ask for.
func (e *Engine) check(ctx context.Context, spec bench.Spec) error {
	refuse := e.run.Unsupported
	err := cmp.Or(bench.CheckNetwork(spec, "", "host", "bridge"), datadir.Check(spec), datadir.CheckMounts(spec, "bind"),
		seccomp.Check(spec.Security))
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	switch {
	case spec.Reach == bench.ReachPublished:
		return refuse("network published: tare asks for no ports of the host: use bridge, or engine cri")
	case spec.Shm != 0:
		return refuse("shm: a pod has no size of /dev/shm: leave it out, or use another engine")
	case !slices.Contains([]string{"", "layer", "bind"}, spec.Storage):
		return refuse("storage %q: tare asks for no volumes of pods: use layer or bind", spec.Storage)
	case spec.Storage == "layer" && !image.IsOwn(spec.Image):
		return refuse("storage layer: the directory %s cannot be made in a container of image %q", bench.DataDir, spec.Image)
	case spec.Runtime != "" || spec.Snapshotter != "":
		return refuse("runtime and snapshotter: those of the node's container runtime are used: leave them out")
	case spec.Security.UserNS:
		return refuse("user namespaces: tare does not support them with Kubernetes: use engine runc, crun or podman")
	case spec.Security.Seccomp == bench.SeccompDocker:
		return refuse("seccomp %s: a kubelet reads profiles only from a directory of its own: leave it out, or use "+
			"unconfined", spec.Security.Seccomp)
	case spec.Limits.Pids > 0:
		return refuse("limit of pids: a pod has none of its own: leave it out")
	case spec.Limits.CPUs > 0 && math.Abs(spec.Limits.CPUs*1000-math.Round(spec.Limits.CPUs*1000)) > 1e-6:
		return refuse("limit of %v CPUs: Kubernetes has steps of 0.001 CPU", spec.Limits.CPUs)
	case spec.Limits.CPUSet != "":
		return refuse("cpuset: a pod cannot choose its CPUs: leave it out")
	case spec.Security.Privileged:
		pids, err := e.node.Daemons(ctx)
		if err != nil {
			return err
		}
		return e.run.CheckPrivileged(pids[0])
	}
	return nil
}

// pod is what is asked of the API server.
func (e *Engine) pod(spec bench.Spec, data *datadir.Dir, imageName, name, node string) *kube.Pod {
	no := false
	p := &kube.Pod{Meta: kube.Meta{Name: name, Labels: map[string]string{owned.Label: e.cfg.Run}}}
	p.Spec = kube.PodSpec{
		Affinity: kube.OnNode(node), Tolerations: []kube.Toleration{{Operator: "Exists"}}, RestartPolicy: "Never",
		MountToken: &no, ServiceLinks: &no, Grace: new(int64(grace)), HostNetwork: spec.Network != "bridge",
		Gates: []kube.Gate{{Name: gate}},
	}
	c := kube.Container{
		Name: containerName, Image: imageName, PullPolicy: "Never", Dir: spec.Dir, Resources: resources(spec.Limits),
		Security: &kube.Security{},
	}
	if len(spec.Argv) > 0 {
		for _, arg := range spec.Argv {
			c.Command = append(c.Command, literal(arg))
		}
	}
	for _, kv := range spec.Env {
		key, value, _ := strings.Cut(kv, "=")
		c.Env = append(c.Env, kube.EnvVar{Name: key, Value: literal(value)})
	}
	s := spec.Security
	if s.Privileged {
		c.Security.Privileged = &s.Privileged
	} else {
		c.Security.Seccomp = &kube.Seccomp{Type: "RuntimeDefault"}
	}
	if s.Seccomp == "unconfined" {
		c.Security.Seccomp = &kube.Seccomp{Type: "Unconfined"}
	}
	if s.ReadOnly {
		c.Security.ReadOnlyRoot = &s.ReadOnly
	}
	if s.NoNewPrivileges {
		c.Security.Escalation = &no
	}
	for i, m := range datadir.Mounts(spec, data) {
		volume := "mount-" + strconv.Itoa(i)
		p.Spec.Volumes = append(p.Spec.Volumes, kube.Volume{Name: volume, Host: &kube.HostPath{Path: m.Source}})
		c.Mounts = append(c.Mounts, kube.Mount{Name: volume, Path: path.Clean(m.Target), ReadOnly: m.ReadOnly})
	}
	p.Spec.Containers = []kube.Container{c}
	return p
}

// literal is a text that the kubelet does not expand: in it, $(NAME) is a variable's value, and $$ is $.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// expanded undoes literal.
func expanded(text string) string { return strings.ReplaceAll(text, "$$", "$") }

// resources are limits without requests, so that the scheduler finds room for them.
func resources(l bench.Limits) kube.Requirements {
	r := kube.Requirements{Limits: kube.Resources{}, Requests: kube.Resources{}}
	if l.CPUs > 0 {
		r.Limits["cpu"] = kube.Quantity(strconv.FormatInt(int64(math.Round(l.CPUs*1000)), 10) + "m")
		r.Requests["cpu"] = "0"
	}
	if l.Memory > 0 {
		r.Limits["memory"] = kube.Quantity(strconv.FormatInt(l.Memory, 10))
		r.Requests["memory"] = "0"
	}
	return r
}

// applied is what the API server has of a pod that does not run yet, but for its image, which imageName names. data is
// where the data of bench.DataDir are on the host. What no field of it can say is an error: bench.ErrMismatch.
func applied(p *kube.Pod, spec bench.Spec, data, imageName string) (bench.Applied, error) {
	mismatch := func(format string, args ...any) (bench.Applied, error) {
		return bench.Applied{}, fmt.Errorf("%w: "+format, append([]any{bench.ErrMismatch}, args...)...)
	}
	if n := len(p.Spec.Containers) + len(p.Spec.InitContainers); n != 1 {
		return mismatch("the cluster has added containers: the pod has %d", n)
	}
	if !slices.ContainsFunc(p.Spec.Gates, func(g kube.Gate) bool { return g.Name == gate }) {
		return mismatch("the cluster has removed the scheduling gate: the pod did not wait for its start")
	}
	for _, g := range p.Spec.Gates {
		if g.Name != gate {
			return mismatch("the cluster has added the scheduling gate %.100q, which somebody else has to remove", g.Name)
		}
	}
	c := p.Spec.Containers[0]
	if c.Image != imageName || c.PullPolicy != "Never" {
		return mismatch("image and pull policy: asked for %q and Never, got %.200q and %.50q", imageName, c.Image,
			c.PullPolicy)
	}
	a := bench.Applied{Network: "bridge"}
	if p.Spec.HostNetwork {
		a.Network = "host"
	}
	for _, arg := range c.Command {
		a.Argv = append(a.Argv, expanded(arg))
	}
	for _, arg := range c.Args {
		a.Argv = append(a.Argv, expanded(arg))
	}
	if cpus, ok := c.Resources.Limits["cpu"].Value(); ok {
		a.Limits.CPUs = cpus
	}
	if memory, ok := c.Resources.Limits["memory"].Value(); ok {
		a.Limits.Memory = int64(memory)
	}
	requests := resources(spec.Limits).Requests
	for what, got := range c.Resources.Requests {
		has, _ := got.Value()
		asked, _ := requests[what].Value()
		if has != asked {
			return mismatch("the cluster has added a request: %.100q of %.100q", got, what)
		}
	}
	if spec.Storage != "" {
		a.Data = "layer"
	}
	for _, m := range c.Mounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v kube.Volume) bool { return v.Name == m.Name && v.Host != nil })
		switch {
		case i < 0:
			return mismatch("the cluster has added the mount %.200q", m.Path)
		case m.Path == bench.DataDir && p.Spec.Volumes[i].Host.Path == data:
			a.Data = readback.DataByEngine("bind", data)
		case m.Path == bench.DataDir:
			a.Data = "other"
		default:
			a.Mounts = append(a.Mounts, bench.Mount{
				Type: "bind", Source: p.Spec.Volumes[i].Host.Path, Target: m.Path, ReadOnly: m.ReadOnly,
			})
		}
	}
	if s := c.Security; s != nil {
		is := func(b *bool) bool { return b != nil && *b }
		a.Security = bench.Security{
			Privileged: is(s.Privileged), ReadOnly: is(s.ReadOnlyRoot), NoNewPrivileges: s.Escalation != nil && !*s.Escalation,
		}
		if s.Seccomp == nil || s.Seccomp.Type == "Unconfined" {
			a.Security.Seccomp = "unconfined"
		}
	}
	return a, nil
}
