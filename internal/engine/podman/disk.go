package podman

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/bench"
)

// Disk implements bench.DiskReporter. Only Podman since 4.4 tells the size of all images together;
// sizes of single images count shared layers more than once.
func (e *Engine) Disk(ctx context.Context) (bench.EngineDisk, error) {
	c, err := e.client(ctx, "")
	if err != nil {
		return bench.EngineDisk{}, err
	}
	if !c.sameProcesses(ctx) {
		return bench.EngineDisk{}, e.run.Unsupported(
			"the files of the service are not visible from here: run tare where it runs")
	}
	if c.Store.GraphRoot == "" {
		return bench.EngineDisk{}, c.failed("info", errors.New("it does not tell where it keeps images"))
	}
	used, err := survey[struct{ ImagesSize *int64 }](ctx, c, "/system/df")
	if err != nil {
		return bench.EngineDisk{}, c.failed("disk usage", err)
	}
	disk := bench.EngineDisk{Dirs: []string{c.Store.GraphRoot}, Images: -1}
	if used.ImagesSize != nil {
		disk.Images = *used.ImagesSize
	}
	return disk, nil
}
