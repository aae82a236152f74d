package docker

import (
	"context"
	"strings"
	"time"

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
	used, err := e.diskUsage(ctx)
	if err != nil {
		return bench.EngineDisk{}, e.failed("disk usage", err)
	}
	disk := bench.EngineDisk{Dirs: []string{info.DockerRootDir}, Images: used.Images.TotalSize}
	if e.manifests.Load() {
		disk.Dirs = append(disk.Dirs, containerdRoot)
	}
	return disk, nil
}

// Engines before 23.0 refuse to count while they count for another program, and say so in these words.
const (
	stillCounting = "disk usage operation is already running"
	countAgain    = 100 * time.Millisecond // later
)

// diskUsage asks until the engine counts.
func (e *Engine) diskUsage(ctx context.Context) (client.DiskUsageResult, error) {
	for {
		used, err := e.client.DiskUsage(ctx, client.DiskUsageOptions{Images: true})
		if err == nil || !strings.Contains(err.Error(), stillCounting) || bench.Sleep(ctx, countAgain) != nil {
			return used, err
		}
	}
}
