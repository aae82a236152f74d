package podman

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Gone looks for processes of a container that was removed. If Podman cannot look a container up
// because another Podman process works on it, it claims to have removed it by force, but only
// deletes its database entry (EvictContainer; seen with 4.3.1). The container's processes then run
// on unmanaged.
func (e *Engine) Gone(_ context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	_, pids, err := own.client.evictedProcesses(own.id)
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("podman reported the container as removed, but its process %d still runs", pids[0])
	}
	return own.failed("remove", err)
}

// evictedProcesses finds the processes of a removed container that still run, by its control group, whose
// name is the container's ID.
func (c *client) evictedProcesses(id string) (group string, pids []int, err error) {
	if errors.Is(c.groupsErr, cgroup.ErrNone) || c.Host.Security.Rootless {
		return "", nil, nil // no group, or one below the user's
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

// killEvicted kills the processes of a removed container that still run.
func (c *client) killEvicted(ctx context.Context, id string) error {
	group, pids, err := c.evictedProcesses(id)
	if err != nil || len(pids) == 0 {
		return err
	}
	return errors.Join(c.groups.Kill(ctx, group), c.groups.Remove(ctx, group))
}
