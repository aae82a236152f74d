package docker

import (
	"context"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// containerdRoot is where a containerd that the engine has not started itself keeps what it has,
// unless its configuration says otherwise.
const containerdRoot = "/var/lib/containerd"

// Disk implements bench.DiskReporter. With containerd's image store, images are in a directory of
// that containerd.
func (e *Engine) Disk(ctx context.Context) (bench.EngineDisk, error) {
	info, err := e.ask(ctx)
	if err != nil {
		return bench.EngineDisk{}, err
	}
	if daemon := e.daemon(ctx); daemon == 0 || !readback.SameNumbers(daemon) {
		return bench.EngineDisk{}, e.daemonNotVisible()
	}
	used, err := e.client.DiskUsage(ctx, client.DiskUsageOptions{Images: true})
	if err != nil {
		return bench.EngineDisk{}, e.failed("disk usage", err)
	}
	disk := bench.EngineDisk{Dirs: []string{info.DockerRootDir}, Images: used.Images.TotalSize}
	if e.manifests.Load() {
		disk.Dirs = append(disk.Dirs, containerdRoot)
	}
	return disk, nil
}
