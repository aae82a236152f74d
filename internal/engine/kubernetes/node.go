package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// Daemons are those of the node's container runtime.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) { return e.node.Daemons(ctx) }

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
	return len(p.Owners) == 0 && len(p.Spec.Containers) == 1 && p.Spec.Containers[0].Name == containerName
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
	for { // it is of another run, which nobody watches
		there := kube.Pod{Meta: kube.Meta{Name: l.ID}}
		err := c.Get(ctx, &there)
		if errors.Is(err, kube.ErrNotFound) || err == nil && there.UID != pod.UID {
			return nil
		}
		if err == nil {
			err = bench.Sleep(ctx, lookEvery)
		}
		if err != nil {
			return e.failed(ctx, "remove pod "+l.ID, err)
		}
	}
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
