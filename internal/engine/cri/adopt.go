package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// This file is for containers that another client of the server makes, which is the kubelet.

// Stored loads the image that a reference names, once, and returns the server's name for it, and the digest of its
// configuration.
func (e *Engine) Stored(ctx context.Context, ref string) (name, digest string, err error) {
	s, err := e.status(ctx)
	if err != nil {
		return "", "", err
	}
	l, err := e.imageOf(ctx, s, ref)
	return l.name, l.digest, err
}

// CheckPrivileged refuses privileged containers if the server itself lacks a capability.
func (e *Engine) CheckPrivileged(ctx context.Context) error {
	s, err := e.status(ctx)
	if err != nil {
		return err
	}
	pid, err := e.daemon(ctx, s)
	if err != nil {
		return err
	}
	return e.run.CheckPrivileged(pid)
}

// An Adopted is a container that another client of the server has made. Engine's methods that take a container take it,
// too; who has made it starts and removes it.
type Adopted struct{ *container }

// TakeData makes the directory for a container's data that are on the host; nil if the spec needs none.
func (e *Engine) TakeData(spec bench.Spec) (*datadir.Dir, error) { return e.data.Take(spec) }

// Adopt finds a container by its ID, with or without the name of its runtime: containerd://0123… data is where its data
// are, as of TakeData; whoever has made the container removes them.
func (e *Engine) Adopt(ctx context.Context, id string, spec bench.Spec, data *datadir.Dir) (*Adopted, error) {
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
	p := &pod{engine: e, server: s, id: found.Containers[0].PodSandboxId, spec: spec, image: l}
	c := &container{pod: p, engine: e, id: found.Containers[0].Id, data: data}
	state, _, err := c.state(ctx)
	if err != nil {
		return nil, err
	}
	c.file = state.GetLogPath()
	return &Adopted{c}, nil
}

// Follow begins to copy the container's output, from its beginning. A nil writer discards.
func (a *Adopted) Follow(stdout, stderr io.Writer) error {
	return a.Attach(context.Background(), stdout, stderr)
}

// Finish copies the rest of the output of a container that has ended, and ends the copying. It may be called again.
func (a *Adopted) Finish() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.output == nil {
		return nil
	}
	output := a.output
	a.output = nil
	return output.finish()
}

// RemovePods removes what the kubelet has left of the run's pods, and would remove within a minute: sandboxes that have
// ended.
func (e *Engine) RemovePods(ctx context.Context) error {
	s, err := e.status(ctx)
	if err != nil {
		return err
	}
	left, err := s.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{
		Filter: &cri.PodSandboxFilter{LabelSelector: map[string]string{owned.Label: e.cfg.Run}},
	})
	if err != nil {
		return e.failed(ctx, "list sandboxes", err)
	}
	for _, p := range left.GetItems() {
		if p.State == cri.PodSandboxState_SANDBOX_NOTREADY && p.Labels[owned.Label] == e.cfg.Run {
			err = errors.Join(err, e.removePod(ctx, s, p.Id))
		}
	}
	return err
}
