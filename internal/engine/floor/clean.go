package floor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// idPrefix begins every container's ID, and so the names of its directory and cgroup. Those of
// other drivers are in the same places.
const idPrefix = "floor-"

// isID reports whether a name can be a container's ID. The check matters because IDs read from the
// host become part of paths that root removes.
func isID(name string) bool {
	return regexp.MustCompile(`^` + idPrefix + `[0-9a-f]{8}-[0-9]{1,19}$`).MatchString(name)
}

// rootGroup is the group of all runs of tare.
const rootGroup = "/tare"

func runGroup(run string) string { return path.Join(rootGroup, run) }

// mountName is the name of the file system at a container's /dev.
func mountName(run, id string) string { return "tare:" + run + ":" + id }

// parseMountName undoes mark.
func parseMountName(name string) (leftContainer, bool) {
	rest, ok1 := strings.CutPrefix(name, "tare:")
	run, id, ok2 := strings.Cut(rest, ":")
	return leftContainer{run, id}, ok1 && ok2 && bench.ValidRunID(run) == nil && isID(id)
}

// leftContainer is a container that has left a trace on the host. Without an ID, it is the empty group of a
// run.
type leftContainer struct{ run, id string }

// The kinds of what a dead run leaves.
const (
	kindContainer = "container" // processes, group and directory
	kindGroup     = "cgroup"    // of the run
)

func (f leftContainer) leftover(engine string) (l bench.Leftover, ok bool) {
	if f.id == "" {
		return bench.Leftover{Run: f.run, Engine: engine, Kind: kindGroup, ID: runGroup(f.run)}, true
	}
	return bench.Leftover{Run: f.run, Engine: engine, Kind: kindContainer, ID: f.id}, isID(f.id)
}

// Leftovers implements bench.Cleaner. It lists a container while its directory, its group or one of
// its processes exists.
func (e *Engine) Leftovers(_ context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	seen := map[leftContainer]bool{}
	var left []bench.Leftover
	add := func(f leftContainer) {
		l, ok := f.leftover(e.config.Name)
		if seen[f] || !ok || bench.ValidRunID(f.run) != nil || !dead(f.run) {
			return
		}
		seen[f] = true
		left = append(left, l)
	}
	running, err := processes()
	for f := range running {
		add(f)
	}
	err = errors.Join(err, e.directories(add), e.ownGroups(add))
	devices, listed := netdev.Leftovers(e.config.Name, e.config.Name, dead)
	data, dataErr := e.data.Leftovers(dead) // to be removed after the containers
	return slices.Concat(left, devices, data), errors.Join(err, listed, dataErr)
}

// directories finds containers by their directories, in those of all runs.
func (e *Engine) directories(add func(leftContainer)) error {
	names, err := filepath.Glob(filepath.Join(quoteGlob(filepath.Dir(e.config.Dir)), "*", idPrefix+"*"))
	for _, name := range names {
		add(leftContainer{filepath.Base(filepath.Dir(name)), filepath.Base(name)})
	}
	return err
}

// quoteGlob escapes the characters that have a meaning for Glob.
func quoteGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// ownGroups finds containers by their groups, in those of all runs.
func (e *Engine) ownGroups(add func(leftContainer)) error {
	h, err := e.groups()
	if err != nil {
		return nil // without control groups none can be left
	}
	runs, err := h.List(rootGroup)
	if err != nil {
		return err
	}
	for _, run := range runs {
		groups, err := h.List(run)
		if err != nil {
			return err
		}
		if len(groups) == 0 {
			add(leftContainer{run: path.Base(run)})
		}
		for _, group := range groups {
			add(leftContainer{path.Base(run), path.Base(group)})
		}
	}
	return nil
}

// processes finds the processes of all containers by their /dev.
func processes() (map[leftContainer][]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[leftContainer][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		if f, ok := containerOf(pid); ok {
			all[f] = append(all[f], pid)
		}
	}
	return all, nil
}

// containerOf returns the container that a process is in. It finds none if the process has ended,
// belongs to another user, or is in tare's own mount namespace.
func containerOf(pid int) (leftContainer, bool) {
	if own, err := readback.SameNamespace("mnt", pid, readback.Self); err == nil && own {
		return leftContainer{}, false
	}
	mounts, err := proc.Mounts("/", pid)
	if err != nil {
		return leftContainer{}, false
	}
	for _, m := range mounts {
		if f, ok := parseMountName(m.Source); ok && m.Point == "/dev" {
			return f, true
		}
	}
	return leftContainer{}, false
}

// RemoveLeftover implements bench.Cleaner.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if err := bench.ValidRunID(l.Run); err != nil {
		return err
	}
	if l.Kind == datadir.Kind {
		return e.data.RemoveLeftover(l)
	}
	h, err := e.groups()
	switch {
	case l.Kind == kindGroup && l.ID == runGroup(l.Run) && err == nil:
		return h.Prune(l.ID)
	case l.Kind == netdev.Kind:
		return netdev.RemoveLeftover(e.config.Name, l)
	case l.Kind != kindContainer || !isID(l.ID):
		return fmt.Errorf("%s: not a leftover of this engine: %s %q", e.config.Name, l.Kind, l.ID)
	}
	if err := killAll(ctx, leftContainer{l.Run, l.ID}); err != nil {
		return fmt.Errorf("remove %s: %w", l.ID, err)
	}
	if err == nil {
		if err := removeGroup(ctx, h, l); err != nil {
			return fmt.Errorf("remove %s: %w", l.ID, err)
		}
	}
	return os.RemoveAll(filepath.Join(filepath.Dir(e.config.Dir), l.Run, l.ID))
}

// killAll kills a container's processes until none is left or ctx ends.
func killAll(ctx context.Context, f leftContainer) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		running, err := processes()
		if err != nil || len(running[f]) == 0 {
			return err
		}
		for _, pid := range running[f] {
			still := func() bool { now, ok := containerOf(pid); return ok && now == f }
			if err := cgroup.KillProcess(pid, still); err != nil {
				return err
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// removeGroup removes a container's group, and the run's group if it is then empty.
func removeGroup(ctx context.Context, h *cgroup.Hierarchy, l bench.Leftover) error {
	group := path.Join(runGroup(l.Run), l.ID)
	// A container that was never started can have a process whose mounts no longer tell where it
	// belongs.
	if err := errors.Join(h.Kill(ctx, group), h.Remove(ctx, group)); err != nil {
		return err
	}
	return h.Prune(runGroup(l.Run))
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
