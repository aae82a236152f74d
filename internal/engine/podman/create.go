package podman

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// check reports the parts of spec that this engine does not support.
func (e *Engine) check(ctx context.Context, c *client, spec bench.Spec) error {
	if err := e.checkNetwork(c, spec); err != nil {
		return err
	}
	err := cmp.Or(datadir.Check(spec), datadir.CheckMounts(spec, "bind", "tmpfs"), seccomp.Check(spec.Security))
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	switch {
	case !slices.Contains([]string{"", "layer", "volume", "bind", "tmpfs"}, spec.Storage):
		return e.unsupported("storage %q: use layer, volume, bind or tmpfs", spec.Storage)
	case spec.DataName != "" && spec.Storage == "volume":
		return e.unsupported("storage volume: data that outlives its container cannot be in a volume: use bind")
	case spec.Snapshotter != "" && spec.Snapshotter != c.Store.Driver:
		return e.unsupported("snapshotter %q: this Podman uses the storage driver %s: leave the snapshotter out",
			spec.Snapshotter, c.Store.Driver)
	case spec.Security.UserNS && spec.Security.Privileged && !c.Host.Security.Rootless:
		return e.unsupported("a privileged container cannot have a user namespace of its own: use only one of the two")
	case spec.Security.Privileged && !c.Host.Security.Rootless:
		if err = e.run.CheckPrivileged(c.servicePID(ctx)); err != nil {
			return err
		}
	}
	return e.checkLimits(c, spec.Limits)
}

// checkLimits refuses limits for which Podman has no control group. Podman itself would only warn,
// and run the container without them.
func (e *Engine) checkLimits(c *client, l bench.Limits) error {
	for controller, asked := range map[string]bool{
		"cpu": l.CPUs > 0, "cpuset": l.CPUSet != "", "memory": l.Memory > 0, "pids": l.Pids > 0,
	} {
		if asked && !slices.Contains(c.Host.CgroupControllers, controller) {
			return e.unsupported("limit of %s: this Podman has no such control group: run tare as root, or delegate the "+
				"controller to the user", controller)
		}
	}
	return nil
}

// Create makes a container with one call.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	c, err := e.client(ctx, spec.Runtime)
	if err != nil {
		return nil, err
	}
	if err := e.check(ctx, c, spec); err != nil {
		return nil, err
	}
	l, err := e.images.Load(ctx, c, spec.Image)
	if err != nil {
		return nil, err
	}
	data, err := e.data.Take(spec)
	if err != nil {
		return nil, c.failed("create", err)
	}
	made := &container{
		client: c, run: e.run, image: l, spec: spec, data: data,
		profile: e.seccompFile(),
	}
	if err := e.make(ctx, made); err != nil {
		return nil, errors.Join(err, data.Remove())
	}
	return made, nil
}

// make makes the container. If it fails, it leaves nothing behind.
func (e *Engine) make(ctx context.Context, c *container) (err error) {
	if c.spec.Security.Seccomp == bench.SeccompDocker {
		if err := seccomp.Write(c.profile); err != nil {
			return c.client.failed("write the seccomp profile", err)
		}
	}
	c.name = e.prefix + strconv.FormatInt(e.number.Add(1), 10)
	r := e.requestOf(c.client, c.spec, c.image, c.data, c.name)
	if err := e.connect(ctx, c.client, c.spec, &r); err != nil {
		return err
	}
	call := func(ctx context.Context) (string, error) {
		var made struct {
			ID string `json:"Id"`
		}
		err := c.client.post(ctx, "/containers/create", r, &made)
		return made.ID, err
	}
	if c.id, err = c.run.Create(ctx, c.name, call, c.client.removeContainer); err != nil {
		return err
	}
	if err := c.openData(ctx); err != nil {
		clean, cancel := owned.CleanUp(ctx)
		defer cancel()
		return errors.Join(err, c.client.removeContainer(clean, c.name))
	}
	return nil
}

// seccompFile is the path of the file with the seccomp filter, which Podman reads.
func (e *Engine) seccompFile() string { return filepath.Join(e.cfg.Dir, "seccomp-"+e.cfg.Name+".json") }

// openData makes bench.DataDir in the layer or in the volume, writable for every user. Images of
// tare's own contain the directory already. Nothing has shown yet that the ID is this container's, so
// the call names the container.
func (c *container) openData(ctx context.Context) error {
	if image.IsOwn(c.spec.Image) || c.spec.Storage != "layer" && c.spec.Storage != "volume" {
		return nil
	}
	archive, err := datadir.Archive()
	if err != nil {
		return err
	}
	answer, err := c.client.send(ctx, http.MethodPut, "/containers/"+c.name+"/archive?path=%2F", "application/x-tar",
		bytes.NewReader(archive))
	if err != nil {
		return c.failed("make "+bench.DataDir, err)
	}
	return answer.Body.Close()
}

// dataOf returns what bench.DataDir lies on according to Podman, and where that is on the host. The
// kind is "other" for a bind mount of a directory that tare did not ask for.
func (c *container) dataOf(got *inspection) (kind, source string) {
	if _, ok := got.HostConfig.Tmpfs[bench.DataDir]; ok {
		return "tmpfs", ""
	}
	for _, m := range got.Mounts {
		if m.Destination != bench.DataDir {
			continue
		}
		if m.Type == "bind" && m.Source != c.data.At() {
			return "other", m.Source
		}
		return m.Type, m.Source
	}
	return "layer", ""
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
