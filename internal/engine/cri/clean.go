package cri

import (
	"context"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// Leftovers lists the pods with the label of a dead run (its containers are in them), then the
// directories of its data, and its images.
func (e *Engine) Leftovers(ctx context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	s, err := e.status(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := s.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, e.failed(ctx, "list sandboxes", err)
	}
	left := &owned.Leftovers{Engine: e.cfg.Name, IsDead: dead}
	for _, p := range pods.Items {
		if p.Labels[labelName] == "" { // the kubelet has made it, and removes it with its pod: see package kubernetes
			continue
		}
		left.Add(p.Labels[owned.Label], owned.KindSandbox, p.Id)
	}
	if err := e.leftoverImages(ctx, s, left.Add); err != nil {
		return nil, err
	}
	data, err := e.data.Leftovers(dead)
	if err != nil {
		return nil, err
	}
	left.Found = append(left.Found, data...)
	if s.store == nil {
		return left.Found, nil
	}
	images, err := s.store.ImageService().List(inKubernetes(ctx), `labels."`+owned.Label+`"`)
	if err != nil {
		return nil, e.failed(ctx, "list images", err)
	}
	for _, i := range images {
		left.Add(i.Labels[owned.Label], owned.KindImage, i.Name)
	}
	return left.Found, nil
}

// RemoveLeftover removes an object that Leftovers listed, if it still belongs to that run.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	s, err := e.status(ctx)
	if err != nil {
		return err
	}
	switch {
	case l.Engine != e.cfg.Name || bench.ValidRunID(l.Run) != nil:
	case l.Kind == owned.KindImage && bench.PulledBy(l.ID) != "":
		if bench.PulledBy(l.ID) == l.Run {
			return e.evict(ctx, s, l.ID)
		}
	case l.Kind == owned.KindImage && s.store != nil:
		return e.removeImage(ctx, s, l.Run, l.ID)
	case l.Kind == datadir.Kind:
		return e.data.RemoveLeftover(l)
	case l.Kind == owned.KindSandbox:
		return e.run.RemoveLeft(l.Run, "sandbox "+l.ID, func() (map[string]string, error) {
			answer, err := s.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: l.ID})
			if err != nil && !isNotFound(err) {
				err = serverError(ctx, err)
			}
			return answer.GetStatus().GetLabels(), err
		}, isNotFound, func() error { return e.removePod(ctx, s, l.ID) })
	}
	return e.run.NotLeftover(l)
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
