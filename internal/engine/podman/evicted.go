package podman

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Gone looks for processes of a container that was removed. Where Podman cannot
// look a container up at the moment, because another Podman works on it, it says
// that it has removed it by force and only strikes it from its books
// (EvictContainer; seen with 4.3.1). Its processes are then nobody's.
func (e *Engine) Gone(_ context.Context, c bench.Container) error {
	own, err := e.own(c)
	if err != nil {
		return err
	}
	_, pids, err := own.client.evicted(own.id)
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("podman says that it has removed the container, and process %d of it runs on", pids[0])
	}
	if err != nil {
		return own.failed("remove", err)
	}
	return nil
}

// evicted finds what runs on of a container that was removed by its control group,
// whose name is the container's ID.
func (c *client) evicted(id string) (group string, pids []int, err error) {
	if errors.Is(c.groupsErr, cgroup.ErrNone) || c.Host.Security.Rootless {
		return "", nil, nil // none, or one below the user's
	}
	if c.groupsErr != nil {
		return "", nil, c.groupsErr
	}
	group = "/libpod_parent/libpod-" + id
	if c.Host.CgroupManager == "systemd" {
		group = "/machine.slice/libpod-" + id + ".scope"
	}
	pids, err = c.groups.Procs(group)
	return group, pids, err
}

// endEvicted ends what runs on of a container that was removed.
func (c *client) endEvicted(ctx context.Context, id string) error {
	group, pids, err := c.evicted(id)
	if err != nil || len(pids) == 0 {
		return err
	}
	return errors.Join(c.groups.Kill(ctx, group), c.groups.Remove(ctx, group))
}
