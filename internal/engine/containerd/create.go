package containerd

import (
	"context"
	"errors"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// Create makes the container and its task: a snapshot, a record, a shim, and
// the process that waits for Start.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	s, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	r, err := e.check(s, spec)
	if err != nil {
		return nil, err
	}
	i, err := e.imageOf(ctx, s, spec)
	if err != nil {
		return nil, err
	}
	c := &container{engine: e, server: s, id: e.next(), image: i, runtime: r, spec: spec, ended: make(chan struct{})}
	if c.data, err = e.data.Take(spec); err != nil {
		return nil, e.failed("create "+c.id, err)
	}
	if err := c.create(ctx); err != nil {
		return nil, e.failed("create "+c.id, errors.Join(err, c.data.Remove()))
	}
	return c, nil
}

// create makes everything or nothing. Containerd may still make the object of a call that is cut
// off. So when ctx ends, a call goes on for a while (grace), to learn what must be removed.
func (c *container) create(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	longer, done := owned.WithGrace(ctx)
	defer done()
	err := c.assemble(ctx, longer)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		c.watch()
		return nil
	}
	clean, cancel := owned.CleanUp(ctx)
	defer cancel()
	return errors.Join(err, c.discard(clean))
}

// assemble makes the parts of a container one after another. Its calls use the context longer; no
// call begins after ctx has ended.
func (c *container) assemble(ctx, longer context.Context) (err error) {
	specification, err := c.specification(longer)
	if err != nil {
		return err
	}
	c.process = specification.Process
	if c.output, err = newOutput(c.engine.dir, c.id); err != nil {
		return err
	}
	labels := c.engine.labels()
	c.container, err = c.server.client.NewContainer(longer, c.id,
		containerd.WithContainerLabels(labels),
		containerd.WithRuntime(c.runtime.shim, c.runtime.options()),
		containerd.WithSnapshotter(c.image.key.snapshotter),
		containerd.WithNewSnapshot(c.id, c.image.image, snapshots.WithLabels(labels)),
		containerd.WithSpec(specification),
	)
	if err == nil {
		err = c.openData(longer)
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	if c.task, err = c.container.NewTask(longer, c.output.creator); err != nil {
		return err
	}
	if c.spec.Network == "bridge" {
		if c.address, err = c.engine.network.Join(int(c.task.Pid())); err != nil {
			return err
		}
	}
	return c.output.unlink()
}

// discard removes the parts of a container whose creation failed.
func (c *container) discard(ctx context.Context) error {
	if c.output != nil {
		c.output.close()
	}
	defer c.engine.network.Leave(c.address)
	return c.engine.erase(ctx, c.server, c.engine.cfg.Run, c.id, c.image.key.snapshotter)
}
