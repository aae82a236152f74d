package podman

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/cgroup"
)

// endEvicted ends what runs on of a container that was removed by force. Where
// Podman cannot look a container up at the moment, because another Podman works
// on it, it says that it has removed it by force and only strikes it from its
// books (EvictContainer; seen with 4.3.1). Its processes are then nobody's. They
// are found by its control group, whose name is the container's ID.
func (c *client) endEvicted(ctx context.Context, id string) error {
	if errors.Is(c.groupsErr, cgroup.ErrNone) || c.Host.Security.Rootless {
		return nil // none, or one below the user's
	}
	if c.groupsErr != nil {
		return c.groupsErr
	}
	group := "/libpod_parent/libpod-" + id
	if c.Host.CgroupManager == "systemd" {
		group = "/machine.slice/libpod-" + id + ".scope"
	}
	if pids, err := c.groups.Procs(group); err != nil || len(pids) == 0 {
		return err
	}
	return errors.Join(c.groups.Kill(ctx, group), c.groups.Remove(ctx, group))
}
