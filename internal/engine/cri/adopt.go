package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// Stored implements bench.Adopter.
func (e *Engine) Stored(ctx context.Context, ref string) (name, digest string, err error) {
	s, err := e.status(ctx)
	if err != nil {
		return "", "", err
	}
	l, err := e.imageOf(ctx, s, ref)
	return l.name, l.digest, err
}

// Adopt implements bench.Adopter. The ID may have the name of the runtime before it, as the kubelet writes it:
// containerd://0123…
func (e *Engine) Adopt(ctx context.Context, id string, spec bench.Spec, data string) (bench.Container, error) {
	if _, bare, named := strings.Cut(id, "://"); named {
		id = bare
	}
	s, err := e.status(ctx)
	if err != nil {
		return nil, err
	}
	l, err := e.imageOf(ctx, s, spec.Image)
	if err != nil {
		return nil, err
	}
	found, err := s.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{Id: id}})
	if err == nil && (id == "" || len(found.GetContainers()) != 1) {
		err = errors.New("the server does not have it")
	}
	if err != nil {
		return nil, e.failed(ctx, fmt.Sprintf("look for container %.80q", id), err)
	}
	sandbox := found.Containers[0].PodSandboxId
	answer, err := s.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err == nil && answer.GetStatus().GetLabels()[owned.Label] != e.cfg.Run {
		err = errors.New("it is not of this run")
	}
	if err != nil {
		return nil, e.failed(ctx, fmt.Sprintf("look for the sandbox of container %.80q", id), err)
	}
	p := &pod{engine: e, server: s, id: sandbox, spec: spec, image: l}
	c := &container{pod: p, engine: e, id: found.Containers[0].Id, dataAt: data, foreign: true}
	state, _, err := c.state(ctx)
	if err != nil {
		return nil, err
	}
	c.file = state.GetLogPath()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adopted = append(e.adopted, p.id)
	return c, nil
}

// removeAdopted removes the sandboxes of containers that were adopted, if they have ended. The kubelet would do so
// within a minute; until then images are in use.
func (e *Engine) removeAdopted(ctx context.Context, s *server) (err error) {
	for _, id := range e.adopted {
		answer, failed := s.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id})
		switch {
		case isNotFound(failed):
		case failed != nil:
			err = errors.Join(err, e.failed(ctx, "inspect sandbox "+id, failed))
		case answer.GetStatus().GetState() == cri.PodSandboxState_SANDBOX_NOTREADY:
			err = errors.Join(err, e.removePod(ctx, s, id))
		}
	}
	e.adopted = nil
	return err
}
