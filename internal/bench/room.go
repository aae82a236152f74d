package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// noRoom is how the system says that a disk is full, and engines and programs after it.
const noRoom = "no space left on device"

// AdviseRoom adds to the error of a full disk where space is needed and what to do; other errors stay as they
// are. Dir is the directory of the run. It may ask the engine where its files are, so it is never timed.
func AdviseRoom(ctx context.Context, e Engine, dir string, err error) error {
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), noRoom) {
		return err
	}
	if strings.Contains(err.Error(), dir+"/") {
		return fmt.Errorf("%w: free some space there, or choose another directory with --state DIR", err)
	}
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if reporter, ok := As[DiskReporter](e); ok {
		if disk, failed := reporter.Disk(ctx); failed == nil && len(disk.Dirs) > 0 {
			return fmt.Errorf("%w: free some space where %s keeps what it has, in %s", err, e.Name(),
				strings.Join(disk.Dirs, " and "))
		}
	}
	return fmt.Errorf("%w: free some space there", err)
}
