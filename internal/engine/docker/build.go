package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/builder"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// A buildTool is what builds images: the user's docker command, and one of the engine's builders.
type buildTool struct {
	program string // path of the command
	kit     bool   // BuildKit, and not the classic builder
	format  builder.Format
	says    string // what it is, with all versions
}

// BuildTool implements bench.ImageBuilder.
func (e *Engine) BuildTool(ctx context.Context, which string) (string, error) {
	t, err := e.buildTool(ctx, which)
	return t.says, err
}

// buildTool finds a builder once.
func (e *Engine) buildTool(ctx context.Context, which string) (buildTool, error) {
	info, err := e.ask(ctx)
	if err != nil {
		return buildTool{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.buildTools[which]; ok {
		return t, nil
	}
	t, err := e.findBuildTool(ctx, which, info.ServerVersion)
	if err == nil {
		e.buildTools[which] = t
	}
	return t, err
}

func (e *Engine) findBuildTool(ctx context.Context, which, server string) (t buildTool, err error) {
	if t.program, err = exec.LookPath("docker"); err != nil {
		return t, e.run.Unsupported("build: there is no docker command: install docker-cli, or docker.io: %v", err)
	}
	said, err := stdstream.Run(ctx, 200, t.program, "--version")
	command := builder.VersionIn(string(said), "version ")
	if err != nil || command == (builder.Version{}) {
		return t, e.failed("docker --version", errors.Join(err, fmt.Errorf("it said %.100q", said)))
	}
	plugin := builder.Version{}
	if said, err := stdstream.Run(ctx, 200, t.program, "buildx", "version"); err == nil {
		plugin = builder.VersionIn(string(said), "buildx ")
	}
	if ctx.Err() != nil {
		return t, e.failed("docker buildx version", context.Cause(ctx))
	}
	there := plugin != builder.Version{} || command.Before(23, 0) // which have BuildKit's client themselves
	switch t.kit = which == bench.BuilderKit; {
	case which == "":
		t.kit = there && wantsKit(os.Getenv("DOCKER_BUILDKIT"), command)
	case t.kit && !there:
		return t, e.run.Unsupported("builder buildkit: docker %s lacks the plugin buildx: install docker-buildx (or "+
			"docker-buildx-plugin), or use builder=classic", command)
	}
	t.says = "classic builder of docker " + server + ", docker command " + command.String()
	if !t.kit {
		return t, nil
	}
	t.format, t.says = builder.BuildKit, "BuildKit of docker "+server+", docker command "+command.String()
	if plugin != (builder.Version{}) && !command.Before(23, 0) {
		t.says += ", buildx " + plugin.String()
		if !plugin.Before(0, 13) {
			t.format = builder.JSON
		}
	}
	return t, nil
}

// wantsKit reports whether `docker build` uses BuildKit by itself, where there is one.
func wantsKit(variable string, command builder.Version) bool {
	if variable != "" {
		return variable != "0" && variable != "false"
	}
	return !command.Before(23, 0)
}

// builtName is the name of every image that the run builds.
func (e *Engine) builtName() string { return e.run.ImageName("build") }

// Build implements bench.ImageBuilder with `docker build`. The command dies with its connection, and the
// engine then stops what it does for it.
func (e *Engine) Build(ctx context.Context, b bench.Build, now func() time.Duration) ([]bench.BuildStep, error) {
	t, err := e.buildTool(ctx, b.Builder)
	if err != nil {
		return nil, err
	}
	argv := []string{t.program, "build", "--tag", e.builtName(), "--file", b.File}
	switch t.format {
	case builder.Classic:
		argv = append(argv, "--force-rm")
	case builder.BuildKit:
		argv = append(argv, "--progress=plain")
	case builder.JSON:
		argv = append(argv, "--progress=rawjson")
	}
	if !b.Cached {
		argv = append(argv, "--no-cache")
	}
	if b.Base != "" {
		base, err := e.images.Load(ctx, store{e}, b.Base)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--build-arg", bench.BuildBase+"="+base.Name)
	}
	e.images.Send(e.builtName()) // Close removes it
	command := builder.Command{
		Argv: append(argv, b.Context), Env: e.buildEnv(t.kit), Format: t.format, Stop: syscall.SIGKILL,
	}
	steps, err := command.Run(ctx, now)
	e.buildCut.Store(err != nil)
	return steps, e.failed("docker build", err)
}

// buildEnv is the user's environment, but for which builder of which engine is used, and where buildx
// keeps notes on builds.
func (e *Engine) buildEnv(kit bool) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{
			"DOCKER_BUILDKIT", "DOCKER_HOST", "DOCKER_CONTEXT", "BUILDKIT_PROGRESS",
			"BUILDX_BUILDER", "BUILDX_CONFIG",
		}, name)
	})
	use := "0"
	if kit {
		use = "1"
	}
	return append(env, "DOCKER_BUILDKIT="+use, "DOCKER_HOST="+e.client.DaemonHost(), "BUILDX_BUILDER=default",
		"BUILDX_CONFIG="+filepath.Join(e.cfg.Dir, "buildx"))
}

// Built implements bench.ImageBuilder.
func (e *Engine) Built(ctx context.Context, _ bench.Build) (bench.BuiltImage, error) {
	found, err := e.client.ImageInspect(ctx, e.builtName())
	if err != nil {
		return bench.BuiltImage{}, e.failed("inspect the image that was built", err)
	}
	image := bench.BuiltImage{ID: found.ID, Size: found.Size}
	if found.Config != nil {
		image.Label = found.Config.Labels[bench.BuildLabel]
	}
	return image, nil
}

// RemoveBuild implements bench.ImageBuilder.
func (e *Engine) RemoveBuild(ctx context.Context, b bench.Build) error {
	t, err := e.buildTool(ctx, b.Builder)
	if err != nil {
		return err
	}
	return builder.RemoveAll(ctx, e.buildCut.Load(), func() (bool, error) {
		images, err := e.removeBuilt(ctx, func(label string) bool { return bench.IsMarked(label, b.Mark) })
		if err != nil || !t.kit {
			return images, err
		}
		records, err := e.removeRecords(ctx, func(text string) bool { return strings.Contains(text, b.Mark+"/") })
		return images || records, err
	})
}

// removeBuilt removes the containers and images whose label is that of a build, and reports whether
// there were any. An image goes after those that were made of it.
func (e *Engine) removeBuilt(ctx context.Context, ours func(label string) bool) (some bool, err error) {
	marked := client.Filters{}.Add("label", bench.BuildLabel)
	containers, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: marked})
	if err != nil {
		return false, e.failed("list containers", err)
	}
	for _, c := range containers.Items {
		if ours(c.Labels[bench.BuildLabel]) {
			some = true
			err = errors.Join(err, e.removeContainer(ctx, c.ID))
		}
	}
	images, listErr := e.client.ImageList(ctx, client.ImageListOptions{All: true, Filters: marked})
	if err = errors.Join(err, e.failed("list images", listErr)); err != nil {
		return some, err
	}
	remaining := builder.Remaining{}
	for _, i := range images.Items {
		if ours(i.Labels[bench.BuildLabel]) {
			some = true
			remaining.Add(i.ID, i.Created)
		}
	}
	return some, remaining.Remove(func(id string) error { return e.removeBuiltImage(ctx, id) })
}

// removeBuiltImage removes an image with its names, and none of those that it was made of: the last of
// them is the user's.
func (e *Engine) removeBuiltImage(ctx context.Context, id string) error {
	_, err := e.client.ImageRemove(ctx, id, client.ImageRemoveOptions{Force: true, PruneChildren: false})
	if err == nil || isNotFound(err) {
		return nil
	}
	return e.failed("remove image "+id, err)
}

var _ bench.ImageBuilder = (*Engine)(nil)

// buildLeftovers lists the images and records of the cache that builds of dead runs have left.
func (e *Engine) buildLeftovers(ctx context.Context, left *owned.Leftovers) error {
	images, err := e.client.ImageList(ctx, client.ImageListOptions{
		All: true, Filters: client.Filters{}.Add("label", bench.BuildLabel),
	})
	if err != nil {
		return e.failed("list images", err)
	}
	for _, i := range images.Items {
		left.Add(bench.MarkedBy(i.Labels[bench.BuildLabel]), owned.KindImage, i.ID)
	}
	records, err := e.buildRecords(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		left.Add(bench.MarkedBy(r.Description), owned.KindCache, r.ID)
	}
	return nil
}
