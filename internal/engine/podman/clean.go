package podman

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Leftovers lists what dead runs left: the containers, networks and volumes with their labels or with
// those of their compose projects (a container's own volumes are removed with it), the images under
// their names, what their builds have made, the interfaces that their networks use, their services with
// directories, and the directories of their data and of their builds' temporary files.
func (e *Engine) Leftovers(ctx context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	left := &owned.Leftovers{Engine: e.cfg.Name, IsDead: dead}
	listErr := e.withClient(ctx, func(c *client) error { return c.list(ctx, left.Add) })
	services, err := servicesOf()
	for _, s := range services {
		left.Add(runOfDir(s.dir), owned.KindProcess, owned.ProcessID(s.Process))
	}
	for _, dir := range temporaryDirs() {
		left.Add(runOfDir(dir), owned.KindDirectory, dir)
	}
	devices, devErr := netdev.Leftovers(driver, e.cfg.Name, dead)
	data, dataErr := e.data.Leftovers(dead)
	return slices.Concat(left.Found, devices, data), errors.Join(listErr, err, devErr, dataErr)
}

// list lists the objects of all runs that Podman knows.
func (c *client) list(ctx context.Context, add func(run, kind, id string)) error {
	for _, mark := range owned.Marks() {
		if err := c.listLabelled(ctx, mark, add); err != nil {
			return err
		}
	}
	if err := c.listBuilds(ctx, add); err != nil { // an image can only go after the containers that use it
		return err
	}
	images, err := survey[[]imageInspection](ctx, c, "/images/json")
	if err != nil {
		return c.failed("list images", err)
	}
	for _, image := range images {
		for _, tag := range image.RepoTags {
			add(owned.RunOf(tag), owned.KindImage, tag)
		}
	}
	return c.listPods(ctx, add)
}

// listBuilds lists what builds of all runs have left.
func (c *client) listBuilds(ctx context.Context, add func(run, kind, id string)) error {
	_, err := c.builtImages(ctx)
	if id, label := c.halfImage(err); id != "" {
		add(bench.MarkedBy(label), owned.KindImage, id)
		return err // what else there is, can be told when it has gone
	}
	working, err := c.workingContainers(ctx)
	if err != nil {
		return err
	}
	for _, w := range working {
		add(w.run, owned.KindContainer, w.ID)
	}
	images, err := c.builtImages(ctx)
	if err != nil {
		return err
	}
	for _, i := range images {
		add(bench.MarkedBy(i.Labels[bench.BuildLabel]), owned.KindImage, i.ID)
	}
	return nil
}

// A listed is the part of Podman's answer about one of many containers that tare uses.
type listed struct {
	ID     string `json:"Id"`
	Labels map[string]string
}

// containersWith lists the containers with a label, such as "tare.run" or "tare.run=ID".
func (c *client) containersWith(ctx context.Context, label string) (found []listed, err error) {
	err = c.get(ctx, "/containers/json?all=true&filters="+withLabel(label), &found)
	return found, c.failed("list containers", err)
}

// listLabelled lists the containers, networks and volumes with a label, in the order in which they can
// be removed.
func (c *client) listLabelled(ctx context.Context, label string, add func(run, kind, id string)) error {
	containers, err := c.containersWith(ctx, label)
	if err != nil {
		return err
	}
	for _, found := range containers {
		add(owned.RunOfLabels(found.Labels), owned.KindContainer, found.ID)
	}
	if err := c.listNetworks(ctx, label, add); err != nil {
		return err
	}
	var volumes []struct {
		Name   string
		Labels map[string]string
	}
	if err := c.get(ctx, "/volumes/json?filters="+withLabel(label), &volumes); err != nil {
		return c.failed("list volumes", err)
	}
	for _, v := range volumes {
		add(owned.RunOfLabels(v.Labels), owned.KindVolume, v.Name)
	}
	return nil
}

// RemoveLeftover removes an object that Leftovers listed, if it still belongs to that run.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	ours := l.Engine == e.cfg.Name && bench.ValidRunID(l.Run) == nil
	switch {
	case ours && l.Kind == datadir.Kind:
		return e.removeData(ctx, l)
	case ours && l.Kind == owned.KindProcess:
		return killService(ctx, l.ID, l.Run)
	case ours && l.Kind == owned.KindDirectory && runOfDir(l.ID) == l.Run &&
		filepath.Dir(l.ID) == filepath.Clean(os.TempDir()):
		return os.RemoveAll(l.ID)
	case ours && l.Kind == netdev.Kind:
		return netdev.RemoveLeftover(driver, l)
	case ours && l.Kind == owned.KindImage && (owned.RunOf(l.ID) == l.Run || isImageID(l.ID)):
	case ours && l.Kind == owned.KindPod && podRun(l.ID) == l.Run:
	case ours && slices.Contains([]string{owned.KindContainer, owned.KindNetwork, owned.KindVolume}, l.Kind):
	default:
		return e.run.NotLeftover(l)
	}
	return e.withClient(ctx, func(c *client) error {
		switch ofBuild, err := c.isOfBuild(ctx, l); {
		case err != nil:
			return err
		case ofBuild: // all of them, because an image can only go after those that were made of it
			_, err := c.removeBuilt(ctx, func(label string) bool { return bench.MarkedBy(label) == l.Run }, l.Run)
			return err
		case l.Kind == owned.KindImage:
			return c.removeImage(ctx, l.ID)
		case l.Kind == owned.KindPod:
			return c.removePod(ctx, l.ID)
		case l.Kind == owned.KindNetwork:
			return e.run.RemoveLeft(l.Run, "network "+l.ID, func() (map[string]string, error) {
				n, err := c.network(ctx, l.ID)
				return n.Labels, err
			}, gone, func() error { return c.removeNetwork(ctx, l.ID) })
		case l.Kind == owned.KindVolume:
			return c.removeVolumeOf(ctx, e.run, l)
		}
		return e.run.RemoveLeft(l.Run, "container "+l.ID, func() (map[string]string, error) {
			got, err := c.inspectContainer(ctx, l.ID)
			if err != nil {
				return nil, err
			}
			return got.Config.Labels, nil
		}, gone, func() error { return c.removeContainer(ctx, l.ID) })
	})
}

// removeVolumeOf removes a volume of a run. Only compose makes volumes that outlive containers.
func (c *client) removeVolumeOf(ctx context.Context, r owned.Run, l bench.Leftover) error {
	path := "/volumes/" + url.PathEscape(l.ID)
	return r.RemoveLeft(l.Run, "volume "+l.ID, func() (map[string]string, error) {
		var found struct{ Labels map[string]string }
		err := c.get(ctx, path+"/json", &found)
		return found.Labels, err
	}, gone, func() error { return c.failed("remove volume "+l.ID, c.remove(ctx, path)) })
}

// A serviceProcess is the process of a service that a run of tare started.
type serviceProcess struct {
	proc.Process
	dir string
}

// servicesOf lists the services of all runs, by their command lines.
func servicesOf() ([]serviceProcess, error) {
	all, err := proc.All("/")
	if err != nil {
		return nil, err
	}
	var found []serviceProcess
	for _, p := range all {
		if dir := serviceOf(p.PID); dir != "" {
			found = append(found, serviceProcess{p, dir})
		}
	}
	return found, nil
}

// serviceOf returns the directory of a service's process; empty if the process is not a service
// that a run started.
func serviceOf(pid int) string {
	args := proc.Args(pid)
	if args == nil || filepath.Base(args[0]) != "podman" || !slices.Contains(args, "service") {
		return ""
	}
	socket, ok := strings.CutPrefix(args[len(args)-1], "unix://")
	if !ok || filepath.Base(socket) != "s" || bench.ValidRunID(runOfDir(filepath.Dir(socket))) != nil {
		return ""
	}
	return filepath.Dir(socket)
}

// killService kills exactly the process that was listed, if it belongs to that run. A process that has
// ended has no command line.
func killService(ctx context.Context, id, run string) error {
	return owned.KillProcess(ctx, id, func(pid int) (proc.Process, bool) {
		p, err := proc.Find("/", pid)
		return p, err == nil && runOfDir(serviceOf(pid)) == run
	})
}

// temporaryDirs lists the directories of services.
func temporaryDirs() []string {
	// The pattern is a constant and is well formed.
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"+dirInfix+"*"))
	return dirs
}
