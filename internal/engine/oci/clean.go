package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// groupsOf is the cgroup that contains the cgroups of a run.
func groupsOf(run string) string { return "/tare/" + run }

// groupOf is the cgroup of one container.
func groupOf(run, engine, number string) string {
	return groupsOf(run) + "/" + engine + "-" + number
}

// containerID is the runtime's ID for a container; it is unique on the machine.
func containerID(run, engine, number string) string {
	return run + "-" + engine + "-" + number
}

// Cgroup returns the path of the container's cgroup.
func (e *Engine) Cgroup(_ context.Context, c bench.Container) (string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return "", err
	}
	return own.bundle.cgroup, nil
}

// The kinds of what a dead run leaves.
const (
	kindContainer = "container" // processes, cgroup, the runtime's state and the bundle
	kindDirectory = "directory" // the engine's, in the run's directory
)

// Leftovers lists the containers and directories that dead runs left with the engine of this name.
// It looks beside this run's directory, where those of all runs lie.
func (e *Engine) Leftovers(_ context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	groups, err := groupNames("/tare")
	if err != nil {
		return nil, err
	}
	dirs, err := subdirectories(filepath.Dir(e.cfg.Dir))
	if err != nil {
		return nil, err
	}
	var found []bench.Leftover
	runs := append(groups, dirs...)
	slices.Sort(runs)
	for _, run := range slices.Compact(runs) {
		if bench.ValidRunID(run) != nil || !dead(run) {
			continue
		}
		left, err := e.leftoversOf(run)
		if err != nil {
			return nil, err
		}
		found = append(found, left...)
	}
	devices, listed := netdev.Leftovers(e.cfg.Name, e.cfg.Name, dead)
	data, err := e.data.Leftovers(dead)
	return slices.Concat(found, devices, data), errors.Join(listed, err)
}

// leftoversOf lists the leftovers of one run.
func (e *Engine) leftoversOf(run string) ([]bench.Leftover, error) {
	dir := e.dirOf(run)
	containers, err := containersOf(run, e.cfg.Name, dir)
	if err != nil {
		return nil, err
	}
	var found []bench.Leftover
	for _, number := range containers {
		found = append(found,
			bench.Leftover{Run: run, Engine: e.cfg.Name, Kind: kindContainer, ID: e.cfg.Name + "-" + number})
	}
	if _, err := os.Lstat(dir); err == nil {
		found = append(found, bench.Leftover{Run: run, Engine: e.cfg.Name, Kind: kindDirectory, ID: filepath.Base(dir)})
	}
	return found, nil
}

// dirOf is the directory of the same-named engine in another run.
func (e *Engine) dirOf(run string) string {
	return filepath.Join(filepath.Dir(e.cfg.Dir), run, prefix+e.cfg.Name)
}

// RemoveLeftover removes an object that Leftovers listed. It does not need the runtime, which may
// no longer be installed: runtimes keep everything in the engine's directory and in control groups.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if err := bench.ValidRunID(l.Run); err != nil {
		return err
	}
	dir := e.dirOf(l.Run)
	number, ok := numberOf(l.ID, e.cfg.Name)
	switch {
	case l.Engine != e.cfg.Name:
	case l.Kind == datadir.Kind:
		return e.data.RemoveLeftover(l)
	case l.Kind == kindContainer && ok:
		return errors.Join(removeContainer(ctx, l.Run, e.cfg.Name, dir, number), prune(l.Run))
	case l.Kind == kindDirectory && l.ID == filepath.Base(dir):
		return removeEngine(ctx, l.Run, e.cfg.Name, dir)
	case l.Kind == netdev.Kind:
		return netdev.RemoveLeftover(e.cfg.Name, l)
	}
	return fmt.Errorf("%s: not a leftover of this engine: %s %q", e.cfg.Name, l.Kind, l.ID)
}

// numberOf returns the N of a container's or a cgroup's name "ENGINE-N".
func numberOf(name, engine string) (string, bool) {
	number, ok := strings.CutPrefix(name, engine+"-")
	if n, err := strconv.Atoi(number); !ok || err != nil || n <= 0 || strconv.Itoa(n) != number {
		return "", false
	}
	return number, true
}

// containersOf lists the numbers of an engine's containers in a run. It looks at bundles and at
// cgroups.
func containersOf(run, engine, dir string) ([]string, error) {
	names, err := groupNames(groupsOf(run))
	if err != nil {
		return nil, err
	}
	bundles, err := subdirectories(dir)
	if err != nil {
		return nil, err
	}
	for _, b := range bundles {
		names = append(names, engine+"-"+b)
	}
	var numbers []string
	for _, name := range names {
		if number, ok := numberOf(name, engine); ok && !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// removeEngine removes an engine's containers of a run and its directory. It removes the run's
// cgroup too if no other engine has a cgroup there.
func removeEngine(ctx context.Context, run, engine, dir string) error {
	numbers, err := containersOf(run, engine, dir)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		err = errors.Join(err, removeContainer(ctx, run, engine, dir, number))
	}
	if err != nil {
		return err
	}
	return errors.Join(prune(run), removeTree(dir))
}

// prune removes the cgroup of a run, and the one of all runs, if they are empty.
func prune(run string) error {
	groups, err := cgroup.Detect("/")
	if errors.Is(err, cgroup.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return groups.Prune(groupsOf(run))
}

// removeContainer removes a container in any state without the runtime.
func removeContainer(ctx context.Context, run, engine, dir, number string) error {
	if err := endGroup(ctx, groupOf(run, engine, number)); err != nil {
		return err
	}
	if err := removeState(filepath.Join(dir, "state"), containerID(run, engine, number)); err != nil {
		return err
	}
	return removeTree(filepath.Join(dir, number))
}

// stateOf lists the paths at which runtimes keep the state of a container: most use a directory
// with its name, runsc a file.
func stateOf(dir, id string) []string {
	return []string{filepath.Join(dir, id), filepath.Join(dir, id+"_sandbox:"+id+".state")}
}

// removeState removes the state of a container, and the files that runsc has beside it.
func removeState(dir, id string) error {
	var errs []error
	lock, socket := filepath.Join(dir, id+"_sandbox:"+id+".lock"), filepath.Join(dir, "runsc-"+id+".sock")
	for _, file := range append(stateOf(dir, id), lock, socket) {
		errs = append(errs, os.RemoveAll(file))
	}
	return errors.Join(errs...)
}

// endGroup kills every process in a cgroup and removes it.
func endGroup(ctx context.Context, path string) error {
	groups, err := cgroup.Detect("/")
	if err != nil {
		return err
	}
	pids, err := groups.Procs(path)
	if err != nil {
		return err
	}
	if err := groups.Kill(ctx, path); err != nil {
		return err
	}
	for _, pid := range pids {
		reap(pid)
	}
	return groups.Remove(ctx, path)
}

// groupNames lists the names of the cgroups directly below one.
func groupNames(path string) ([]string, error) {
	groups, err := cgroup.Detect("/")
	if errors.Is(err, cgroup.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := groups.List(path)
	for i, name := range names {
		names[i] = filepath.Base(name)
	}
	return names, err
}

// subdirectories lists the names of the directories in dir. If dir does not exist, there are none.
func subdirectories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
