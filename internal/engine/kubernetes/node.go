package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// kubelets are what programs call themselves that are the kubelet: also of k3s, and of MicroK8s.
var kubelets = []string{"kubelet", "k3s-server", "k3s-agent", "kubelite"}

// Daemons are those of the node's container runtime, and the kubelet.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) {
	daemons, err := e.node.Daemons(ctx)
	if err != nil {
		return nil, err
	}
	all, err := proc.All("/")
	if err != nil {
		return nil, err
	}
	found := false
	for _, p := range all {
		if !isKubelet(proc.Name(p.PID), proc.Args(p.PID)) {
			continue
		}
		here, err := readback.SameNamespace("net", p.PID, readback.Self) // nodes can share a machine
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
		case err != nil:
			return nil, e.failed(ctx, "look at the kubelet", err)
		case here:
			daemons, found = append(daemons, p.PID), true
		}
	}
	if !found {
		return nil, e.run.Unsupported("the node's kubelet is not found among processes called %s",
			strings.Join(kubelets, ", "))
	}
	return daemons, nil
}

// isKubelet knows a kubelet by its name, or by the command of a program of many: hyperkube kubelet.
func isKubelet(name string, args []string) bool {
	if slices.Contains(kubelets, name) {
		return true
	}
	if len(args) < 2 || args[1] != kubelets[0] {
		return false
	}
	program := path.Base(args[0])
	return program == "hyperkube" || strings.HasPrefix(program, "kubernetes")
}

// Pid is the container's first process.
func (e *Engine) Pid(ctx context.Context, c bench.Container) (int, error) {
	made, err := e.hereOf(ctx, c)
	if err != nil {
		return 0, err
	}
	return e.node.Pid(ctx, made)
}

// Address implements bench.Addresser.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	made, err := e.hereOf(ctx, c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return e.node.Address(ctx, made, p)
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	made, err := e.hereOf(ctx, c)
	if err != nil {
		return nil, err
	}
	return e.node.Path(ctx, made, p)
}

// Leftovers lists the pods of dead runs, and then what is left of them on this node, with their images.
func (e *Engine) Leftovers(ctx context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := kube.List[kube.Pod](ctx, c.Client, kube.Query{Labels: owned.Label})
	if err != nil {
		return nil, e.failed(ctx, "list pods", err)
	}
	left := &owned.Leftovers{Engine: e.cfg.Name, IsDead: dead}
	for _, p := range pods {
		if isOurs(&p) {
			left.Add(p.Labels[owned.Label], owned.KindPod, p.Name)
		}
	}
	onNode, err := e.node.Leftovers(ctx, dead)
	return append(left.Found, onNode...), err
}

// isOurs tells a pod of this engine from one of a fleet, which belongs to a Job.
func isOurs(p *kube.Pod) bool {
	isTare := func(c kube.Container) bool { return c.Name == containerName } // a webhook may have added others
	return len(p.Owners) == 0 && slices.ContainsFunc(p.Spec.Containers, isTare)
}

// RemoveLeftover implements bench.Cleaner.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if l.Kind != owned.KindPod || l.Engine != e.cfg.Name {
		return e.node.RemoveLeftover(ctx, l)
	}
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	pod := kube.Pod{Meta: kube.Meta{Name: l.ID}}
	err = c.Get(ctx, &pod)
	if errors.Is(err, kube.ErrNotFound) {
		return nil
	}
	if err != nil {
		return e.failed(ctx, "inspect pod "+l.ID, err)
	}
	if pod.Labels[owned.Label] != l.Run || !isOurs(&pod) {
		return fmt.Errorf("%s: pod %s is not of run %s", e.cfg.Name, l.ID, l.Run)
	}
	if err := c.DeleteIn(ctx, &pod, grace); err != nil && !errors.Is(err, kube.ErrNotFound) {
		return e.failed(ctx, "remove pod "+l.ID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	for { // it is of another run, which nobody watches
		there := kube.Pod{Meta: kube.Meta{Name: l.ID}}
		err := c.Get(ctx, &there)
		if errors.Is(err, kube.ErrNotFound) || err == nil && there.UID != pod.UID {
			return nil
		}
		if err != nil {
			return e.failed(ctx, "remove pod "+l.ID, err)
		}
		if bench.Sleep(ctx, lookEvery) != nil {
			why := "its node's kubelet has not ended it yet"
			if len(there.Finalizers) > 0 {
				why = fmt.Sprintf("it has the finalizers %.200q", there.Finalizers)
			}
			return fmt.Errorf("%s: pod %s is to go, but is still there: %s", e.cfg.Name, l.ID, why)
		}
	}
}

// removeLimit is how long a leftover may take to go.
const removeLimit = 30 * time.Second

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
