package cri

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// labelName is a label by which tare finds the object of a call whose answer never came.
const labelName = "tare.name"

// A pod is a sandbox of the engine, from its creation to its removal.
type pod struct {
	engine *Engine
	server *server
	id     string
	name   string
	spec   bench.Spec
	image  storedImage
	config *cri.PodSandboxConfig

	number atomic.Int64 // of the last container

	mu         sync.Mutex
	containers []*container
}

// pod runs a sandbox.
func (e *Engine) pod(ctx context.Context, spec bench.Spec) (*pod, error) {
	s, err := e.status(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.check(ctx, s, spec); err != nil {
		return nil, err
	}
	l, err := e.imageOf(ctx, s, spec.Image)
	if err != nil {
		return nil, err
	}
	p := &pod{engine: e, server: s, spec: spec, image: l, name: e.prefix + strconv.FormatInt(e.number.Add(1), 10)}
	p.config = e.podConfig(s, spec, p.name)
	if p.config.PortMappings, err = portsOf(spec); err != nil {
		return nil, e.failed(ctx, "choose a port of the host", err)
	}
	longer, stop := owned.WithGrace(ctx)
	defer stop()
	if ctx.Err() != nil {
		return nil, e.failed(ctx, "run sandbox "+p.name, ctx.Err())
	}
	made, err := s.RunPodSandbox(longer, &cri.RunPodSandboxRequest{Config: p.config, RuntimeHandler: e.handlerOf(spec)})
	p.id = made.GetPodSandboxId()
	if err == nil && ctx.Err() == nil && p.id != "" {
		return p, nil
	}
	return nil, errors.Join(e.failed(ctx, "run sandbox "+p.name, orMissing(err)), p.removeByName(ctx))
}

// orMissing returns err or, if it is nil, an error that says that the answer has no ID.
func orMissing(err error) error {
	if err == nil {
		return errors.New("the server's answer has no ID")
	}
	return err
}

// removeByName removes every sandbox with the pod's name, after a call that failed or was answered too
// late.
func (p *pod) removeByName(ctx context.Context) error {
	ctx, cancel := owned.CleanUp(ctx)
	defer cancel()
	found, err := p.server.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{
		Filter: &cri.PodSandboxFilter{LabelSelector: map[string]string{labelName: p.name}},
	})
	if err != nil {
		return p.engine.failed(ctx, "look for sandbox "+p.name, err)
	}
	for _, s := range found.Items {
		if s.Labels[labelName] == p.name {
			err = errors.Join(err, p.engine.removePod(ctx, p.server, s.Id))
		}
	}
	return err
}

func (p *pod) ID() string { return p.id }

// Create makes a container in the sandbox.
func (p *pod) Create(ctx context.Context) (bench.Container, error) {
	c, err := p.create(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p *pod) create(ctx context.Context) (*container, error) {
	c := &container{pod: p, engine: p.engine, name: p.name + "-" + strconv.FormatInt(p.number.Add(1), 10)}
	c.file = filepath.Join(p.engine.logs(), c.name+".log")
	if ctx.Err() != nil {
		return nil, p.engine.failed(ctx, "create "+c.name, ctx.Err())
	}
	longer, stop := owned.WithGrace(ctx)
	defer stop()
	if p.spec.Security.Seccomp == bench.SeccompDocker {
		if err := seccomp.Write(p.engine.profile()); err != nil {
			return nil, p.engine.failed(ctx, "create "+c.name, err)
		}
	}
	var err error
	if c.data, err = p.engine.data.Take(p.spec); err != nil {
		return nil, p.engine.failed(ctx, "create "+c.name, err)
	}
	c.dataAt = c.data.At()
	made, err := p.createContainer(ctx, longer, &cri.CreateContainerRequest{
		PodSandboxId: p.id, Config: p.engine.containerConfig(p.spec, p.image, c.data, c.name), SandboxConfig: p.config,
	})
	c.id = made.GetContainerId()
	if err == nil && ctx.Err() == nil && c.id != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.containers = append(p.containers, c)
		return c, nil
	}
	return nil, errors.Join(p.engine.failed(ctx, "create "+c.name, orMissing(err)), c.removeByName(ctx), c.data.Remove())
}

// createContainer makes the call with the context longer, and repeats it up to 200 times, until ctx ends, if a name has
// gone. Containerd opens an image by the first of its names, whichever it was asked for. Another run may have just
// removed that one: containerd's CRI server notices it a moment later, and then takes the next name.
func (p *pod) createContainer(
	ctx, longer context.Context, r *cri.CreateContainerRequest,
) (made *cri.CreateContainerResponse, err error) {
	const tries, pause = 200, 10 * time.Millisecond // some of it is timed, so no longer than it must be
	for range tries {
		made, err = p.server.CreateContainer(longer, r)
		if !isNameGone(err) || bench.Sleep(ctx, pause) != nil {
			break
		}
	}
	return made, err
}

// Stop ends the processes in the sandbox and releases its network.
func (p *pod) Stop(ctx context.Context) error {
	_, err := p.server.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id})
	if err != nil && !isNotFound(err) {
		return p.engine.failed(ctx, "stop sandbox "+p.id, err)
	}
	return nil
}

// Remove removes the sandbox and everything in it. CRI requires that the server first stops what
// still runs.
func (p *pod) Remove(ctx context.Context) error {
	if err := p.engine.removePod(ctx, p.server, p.id); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, c := range p.containers {
		err = errors.Join(err, c.release())
	}
	return err
}

// removePod removes a sandbox. It is not an error if there is none.
func (e *Engine) removePod(ctx context.Context, s *server, id string) error {
	_, err := s.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	if err != nil && !isNotFound(err) {
		return e.failed(ctx, "remove sandbox "+id, err)
	}
	return nil
}
