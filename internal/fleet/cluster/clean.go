package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// A waste is how long Clean waits. Tests have others.
type waste struct {
	pause  time.Duration // between two looks
	secret time.Duration // a Secret that is left alone for so long is somebody else's
	most   time.Duration
}

var usualWaste = waste{2 * time.Second, 30 * time.Second, 5 * time.Minute}

// Clean removes what a fleet has in the cluster, and waits until it is gone. It removes the roots, and with them goes
// what they own. It returns how many objects went, and how many are left that have the fleet's label but not its owner:
// they are somebody else's.
func Clean(ctx context.Context, c *kube.Client, p *Plan, h Hooks) (removed, foreign int, err error) {
	return clean(ctx, c, p, h, usualWaste)
}

func clean(ctx context.Context, c *kube.Client, p *Plan, h Hooks, w waste) (removed, foreign int, err error) {
	k := &cleaning{c: c, p: p, roots: map[string][]kube.Owner{}, jobs: map[string]bool{}}
	if err := k.findRoots(ctx); err != nil {
		return 0, 0, err
	}
	total, foreign, err := k.count(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := k.removeRoots(ctx); err != nil {
		return 0, foreign, err
	}
	began := time.Now()
	for {
		left, others, err := k.count(ctx)
		if err != nil {
			return 0, foreign, err
		}
		foreign = others
		secrets := k.secrets(ctx)
		if h.Progress != nil {
			h.Progress(Cleaning, max(0, total-left), total)
		}
		waited := time.Since(began)
		switch {
		case left == 0 && (secrets == 0 || waited > w.secret):
			return total, foreign + secrets, nil
		case waited > w.most:
			return total - left, foreign, fmt.Errorf("%d objects of fleet %s are still there after %v: the cluster removes "+
				"them in the background. Look again with: kubectl get pods,jobs,configmaps,secrets -A -l %s=%s",
				left, p.Fleet.ID, waited.Round(time.Second), kube.LabelRun, p.Fleet.ID)
		}
		select {
		case <-ctx.Done():
			return total - left, foreign, context.Cause(ctx)
		case <-time.After(w.pause):
		}
	}
}

// A cleaning is the removal of one fleet.
type cleaning struct {
	c     *kube.Client
	p     *Plan
	roots map[string][]kube.Owner // by namespace
	jobs  map[string]bool         // the UIDs of those that the roots own, or have owned
}

func (k *cleaning) findRoots(ctx context.Context) error {
	for _, space := range k.p.Fleet.Namespaces {
		root := &kube.ConfigMap{Meta: kube.Meta{Name: rootName(k.p.Fleet.ID), Namespace: space}}
		switch err := k.c.Get(ctx, root); {
		case errors.Is(err, kube.ErrNotFound):
		case err != nil:
			return err
		case root.Labels[kube.LabelRun] == k.p.Fleet.ID:
			k.roots[space] = []kube.Owner{kube.OwnerOf(root)}
		}
	}
	var err error
	if k.p.draw, err = k.p.findDraw(ctx, k.c); errors.Is(err, kube.ErrNotFound) {
		return nil // no Secret was given to a pod, and those that were made go with their roots
	}
	return err
}

// removeRoots begins with the last: the first has the plan, with which another client can go on.
func (k *cleaning) removeRoots(ctx context.Context) error {
	for _, space := range slices.Backward(k.p.Fleet.Namespaces) {
		if k.roots[space] == nil {
			continue
		}
		root := &kube.ConfigMap{Meta: kube.Meta{
			Name: rootName(k.p.Fleet.ID), Namespace: space, UID: k.roots[space][0].UID,
		}}
		err := k.c.Delete(ctx, root)
		if err != nil && !errors.Is(err, kube.ErrNotFound) && !errors.Is(err, kube.ErrConflict) {
			return err
		}
	}
	return nil
}

// count counts the objects of a fleet that belong to its roots, and those with its label that do not.
func (k *cleaning) count(ctx context.Context) (ours, foreign int, err error) {
	add := func(is bool) {
		ours += btoi(is)
		foreign += btoi(!is)
	}
	for _, space := range k.p.Fleet.Namespaces {
		q := kube.Query{Namespace: space, Labels: kube.LabelRun + "=" + k.p.Fleet.ID}
		maps, err := kube.List[kube.ConfigMap](ctx, k.c, q)
		if err != nil {
			return 0, 0, err
		}
		roots := k.roots[space]
		for i := range maps {
			add(owned(&maps[i].Meta, roots) || len(roots) > 0 && maps[i].UID == roots[0].UID)
		}
		jobs, err := kube.List[kube.Job](ctx, k.c, q)
		if err != nil {
			return 0, 0, err
		}
		for i := range jobs {
			is := owned(&jobs[i].Meta, roots)
			if is {
				k.jobs[jobs[i].UID] = true
			}
			add(is)
		}
		pods, err := kube.List[kube.Pod](ctx, k.c, q)
		if err != nil {
			return 0, 0, err
		}
		for i := range pods {
			add(slices.ContainsFunc(pods[i].Owners, func(o kube.Owner) bool { return k.jobs[o.UID] }))
		}
	}
	return ours, foreign, nil
}

// secrets counts the Secrets that are left. A fleet has no right to read them, so it asks whether it could make them.
func (k *cleaning) secrets(ctx context.Context) (left int) {
	for _, space := range k.p.Fleet.Namespaces {
		if k.roots[space] == nil {
			continue
		}
		left += btoi(errors.Is(k.c.DryRun(ctx, k.p.token(space, "", nil)), kube.ErrExists))
	}
	return left
}
