package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// `podman build` makes a bundle for each step, a directory among its temporary files, and the runtime keeps a
// state and control groups under a name with that of the directory. If the command is ended in the middle, also
// by a signal that only asks it to end, all of that stays, and nothing in it says whose it was. So builds have
// their temporary files in a directory of the run.

const (
	buildData = "build"  // the name of that directory
	temporary = "TMPDIR" // the variable that says so to podman, and to what it starts
)

// buildSpace is the Spec of that directory: on the file system where Podman has them by default. It is recorded
// with the run's other directories, so that clean finds it.
func (c *client) buildSpace() bench.Spec {
	places := []string{os.Getenv(temporary), c.Store.Temporary, "/var/tmp"}
	i := slices.IndexFunc(places, filepath.IsAbs)
	return bench.Spec{Storage: "bind", Data: places[i], DataName: buildData}
}

// bundle is the name of a bundle's directory.
var bundle = regexp.MustCompile(`^buildah[0-9]{1,20}$`)

// removeBundles removes what builds have left in their directory, and reports whether there was anything. Their
// processes must have ended.
func (c *client) removeBundles(ctx context.Context, dir string) (some bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	err = errors.Join(err, awaitBuilds(ctx, dir))
	for _, entry := range entries {
		some = true
		if bundle.MatchString(entry.Name()) {
			err = errors.Join(err, c.forgetBundle(ctx, "buildah-"+entry.Name()))
		}
		err = errors.Join(err, datadir.RemoveTree(filepath.Join(dir, entry.Name())))
	}
	return some, err
}

// awaitBuilds waits until no process works for builds in a directory. On a busy machine the runtime outlives podman by
// seconds, and would keep its state of a bundle that is gone. Some stay, if podman was killed: those end with what they
// wait for, so it does not wait for ever.
func awaitBuilds(ctx context.Context, dir string) error {
	const tries, pause = 100, 100 * time.Millisecond
	for range tries {
		all, err := proc.Marked("/", temporary)
		works := func(p proc.MarkedProcess) bool { return p.Value == dir }
		if err != nil || !slices.ContainsFunc(all, works) {
			return err
		}
		if err := bench.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// forgetBundle has the runtime remove what it keeps under a name. Of a container that crun was about to make when it was
// ended, it tells no state, but removes what there is, except for the control groups.
func (c *client) forgetBundle(ctx context.Context, name string) error {
	const said = 300 // bytes, of its answer
	runtime := c.Host.OCIRuntime.Path
	if out, err := stdstream.Run(ctx, said, runtime, "delete", "--force", name); err != nil {
		if _, unknown := stdstream.Run(ctx, said, runtime, "state", name); unknown != nil {
			return context.Cause(ctx)
		}
		return c.failed(runtime+" delete "+name, fmt.Errorf("%w: %q", err, out))
	}
	if c.groupsErr != nil || c.Host.Security.Rootless {
		return nil // there are none, or they are below the user's
	}
	return c.failed("remove the control groups of "+name, c.groups.Remove(ctx, "/"+name))
}

// removeData removes a directory of a dead run that Leftovers listed; if builds have worked there, with what
// belongs to their bundles.
func (e *Engine) removeData(ctx context.Context, l bench.Leftover) error {
	known, err := e.data.Leftovers(func(run string) bool { return run == l.Run })
	if err != nil {
		return err
	}
	if slices.Contains(known, l) && e.data.IsNamed(l, buildData) {
		if err := e.withClient(ctx, func(c *client) error {
			_, err := c.removeBundles(ctx, filepath.Join(l.ID, datadir.Inside))
			return err
		}); err != nil {
			return err
		}
	}
	return e.data.RemoveLeftover(l)
}
