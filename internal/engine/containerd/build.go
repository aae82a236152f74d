package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/opencontainers/image-spec/identity"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/builder"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// BuildTool implements bench.ImageBuilder. Containerd has no builder of its own: buildkitd is the one that
// builds into its store.
func (e *Engine) BuildTool(ctx context.Context, which string) (string, error) {
	if which != "" && which != bench.BuilderKit {
		return "", e.run.Unsupported("builder %s: containerd's builder is buildkitd: use builder=auto", which)
	}
	k, err := e.buildkitd(ctx)
	if err != nil {
		return "", err
	}
	return k.says, nil
}

// buildkitd finds the builder once.
func (e *Engine) buildkitd(ctx context.Context) (*buildkit, error) {
	if known := e.kit.Load(); known != nil {
		return known, nil
	}
	s, done, err := e.connectTemporarily(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	k, err := e.findBuildkit(ctx, s)
	if err == nil {
		e.kit.Store(k)
	}
	return k, err
}

// builtName is the name of every image that the run builds.
func (e *Engine) builtName() string { return e.run.ImageName("build") }

// prepareBase brings tare's own image to where a build finds it, once there is a builder.
func (e *Engine) prepareBase(ctx context.Context, s *server, ref string) error {
	k := e.kit.Load()
	if k == nil || ref != "" && ref != bench.AgentImage {
		return nil
	}
	_, err := e.base(ctx, s, k, bench.AgentImage)
	return err
}

// base brings an image into the namespace of buildkitd, once, and returns its name there.
func (e *Engine) base(ctx context.Context, s *server, k *buildkit, ref string) (string, error) {
	return e.bases.Get(ref, func() (string, error) {
		img, err := e.cfg.Images.Resolve(ctx, ref)
		if err != nil {
			return "", err
		}
		name, err := e.run.NameOf(img)
		if err != nil {
			return "", err
		}
		e.bases.Send(name)
		there := k.within(ctx)
		got, err := e.receive(there, s, name, func(w io.Writer) error { return img.WriteDockerArchive(w, name) })
		if err == nil {
			err = checkDigest(there, got, img.Digest())
		}
		return name, e.failed("import image "+img.Ref()+" for buildkitd", err)
	})
}

// Build implements bench.ImageBuilder with `buildctl build`, which ends its build when it is asked to end.
func (e *Engine) Build(ctx context.Context, b bench.Build, now func() time.Duration) ([]bench.BuildStep, error) {
	k, err := e.buildkitd(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.server(ctx)
	if err != nil {
		return nil, err
	}
	base := ""
	if b.Base != "" {
		if base, err = e.base(ctx, s, k, b.Base); err != nil {
			return nil, err
		}
	}
	e.bases.Send(e.builtName()) // Close removes it
	command := builder.Command{
		Argv: k.buildArgs(b, base, e.builtName()), Env: os.Environ(), Format: builder.JSON, Stop: syscall.SIGTERM,
	}
	steps, err := command.Run(ctx, now)
	e.buildCut.Store(err != nil)
	return steps, e.failed("buildctl build", err)
}

// buildArgs are the command for a build. Buildkitd keeps one copy of the files that clients send under one name, and
// asks for what has changed in it. Only the directory of the build file can have a name of its own, by which tare
// finds what the build leaves. Base images are looked for in containerd's store before a registry is asked, as docker
// does.
func (k *buildkit) buildArgs(b bench.Build, base, name string) []string {
	file := b.Mark + "/file"
	args := []string{
		k.program, "build", "--frontend", "dockerfile.v0", "--progress=rawjson",
		"--local", "context=" + b.Context, "--local", file + "=" + filepath.Dir(b.File),
		"--opt", fileKey + "=" + file, "--opt", "filename=" + filepath.Base(b.File),
		"--opt", "image-resolve-mode=local", "--output", "type=image,name=" + name,
	}
	if !b.Cached {
		args = append(args, "--no-cache")
	}
	if base != "" {
		args = append(args, "--opt", "build-arg:"+bench.BuildBase+"="+base)
	}
	return args
}

// Built implements bench.ImageBuilder.
func (e *Engine) Built(ctx context.Context, _ bench.Build) (bench.BuiltImage, error) {
	failed := func(err error) (bench.BuiltImage, error) {
		return bench.BuiltImage{}, e.failed("inspect the image that was built", bench.Because(ctx, err))
	}
	k, err := e.buildkitd(ctx)
	if err != nil {
		return bench.BuiltImage{}, err
	}
	s, err := e.server(ctx)
	if err != nil {
		return bench.BuiltImage{}, err
	}
	there := k.within(ctx)
	found, err := s.client.ImageService().Get(there, e.builtName())
	if err != nil {
		return failed(err)
	}
	image := containerd.NewImage(s.client, found)
	size, err := image.Size(there)
	if err != nil {
		return failed(err)
	}
	spec, err := image.Spec(there)
	if err != nil {
		return failed(err)
	}
	return bench.BuiltImage{ID: found.Target.Digest.String(), Label: spec.Config.Labels[bench.BuildLabel], Size: size}, nil
}

// RemoveBuild implements bench.ImageBuilder.
func (e *Engine) RemoveBuild(ctx context.Context, b bench.Build) error {
	k, err := e.buildkitd(ctx)
	if err != nil {
		return err
	}
	s, err := e.server(ctx)
	if err != nil {
		return err
	}
	ours := func(r builder.Record) bool { return strings.Contains(r.Description, b.Mark+"/") }
	return builder.RemoveAll(ctx, e.buildCut.Load(), func() (bool, error) {
		some, err := k.remove(ctx, ours)
		if err != nil {
			return some, e.failed("remove what the build left", err)
		}
		err = s.client.ImageService().Delete(k.within(ctx), e.builtName(), images.SynchronousDelete())
		return some || err == nil, e.removed("image "+e.builtName(), err)
	})
}

// closeBuilder removes the images that the run has put into buildkitd's namespace, and their records.
func (e *Engine) closeBuilder(ctx context.Context, s *server) error {
	k := e.kit.Load()
	if k == nil {
		return nil
	}
	err := e.removeBuilds(ctx, s, k, e.cfg.Run)
	return errors.Join(err, e.bases.Close(func(name string) error { return e.removeImage(k.within(ctx), s, name) }))
}

// removeBuilds removes what buildkitd keeps of a run, whose images must still be there.
func (e *Engine) removeBuilds(ctx context.Context, s *server, k *buildkit, run string) error {
	kept, err := k.kept(ctx)
	if err != nil {
		return e.failed("list what buildkitd keeps", err)
	}
	runs, err := e.runsOfRecords(ctx, s, k, kept)
	if err == nil {
		_, err = k.remove(ctx, func(r builder.Record) bool { return runs[r.ID] == run })
	}
	return e.failed(fmt.Sprintf("remove what builds of run %s left", run), err)
}

// runsOfRecords returns, by their IDs, the runs of what buildkitd keeps: empty or missing for what is not tare's.
//
// The records that hold the layers of tare's own image have no description, because buildkitd finds these layers in
// containerd's store and need not pull them. It holds them by leases that have the IDs of its records. If a step that was
// cut short has held such a record until its image had gone, the record is the parent of one with a mark.
func (e *Engine) runsOfRecords(
	ctx context.Context, s *server, k *buildkit, kept []builder.Record,
) (map[string]string, error) {
	snapshots, err := e.baseSnapshots(ctx, s, k)
	if err != nil {
		return nil, err
	}
	runs, parents := map[string]string{}, runsOfParents(kept)
	for _, r := range kept {
		if r.Description != "" {
			runs[r.ID] = buildRun(r.Description)
			continue
		}
		held, err := s.client.LeasesService().ListResources(k.within(ctx), leases.Lease{ID: r.ID})
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		runs[r.ID] = parents[r.ID]
		for _, h := range held {
			runs[r.ID] = cmp.Or(runs[r.ID], snapshots[h.ID])
		}
	}
	return runs, nil
}

// baseSnapshots returns the runs whose image of tare's own has a layer, by the name of that layer's snapshot.
func (e *Engine) baseSnapshots(ctx context.Context, s *server, k *buildkit) (map[string]string, error) {
	there := k.within(ctx)
	all, err := s.client.ImageService().List(there)
	runs := map[string]string{}
	for _, i := range all {
		run := owned.RunOf(i.Name)
		if run == "" || path.Base(i.Name) != path.Base(e.run.ImageName(bench.AgentImage)) {
			continue
		}
		layers, err := containerd.NewImage(s.client, i).RootFS(there)
		if err != nil && !isNotFound(err) { // somebody has just removed it
			return nil, err
		}
		for n := range layers {
			runs[identity.ChainID(layers[:n+1]).String()] = run
		}
	}
	return runs, err
}

// runsOfParents returns the runs of records with a mark, by the IDs of the records from which they were made. Only
// programs in tare's own build file have a mark.
func runsOfParents(kept []builder.Record) map[string]string {
	runs := map[string]string{}
	for _, r := range kept {
		if run := bench.MarkedBy(r.Description); run != "" {
			for _, parent := range r.Parents {
				runs[parent] = run
			}
		}
	}
	return runs
}

// buildRun is the run of a text that buildkitd keeps with what it has made: one with the mark of a build, or with
// the name of an image of tare's; empty if it is neither.
func buildRun(text string) string {
	if run := bench.MarkedBy(text); run != "" {
		return run
	}
	return owned.RunOf(strings.TrimPrefix(text, pulledFrom))
}

// pulledFrom begins the description of the record of an image's layer.
const pulledFrom = "pulled from "

// kitSpace separates the namespace of buildkitd from the name of an image in the ID of a leftover.
const kitSpace = " "

// buildLeftovers lists the images, and what buildkitd keeps, that builds of dead runs have left.
func (e *Engine) buildLeftovers(ctx context.Context, s *server, left *owned.Leftovers) error {
	k, err := e.findBuildkit(ctx, s)
	if errors.Is(err, bench.ErrUnsupported) {
		return nil // what a buildkitd has that does not answer, the next one to clean finds
	}
	if err != nil {
		return err
	}
	kept, err := k.kept(ctx)
	if err != nil {
		return e.failed("list what buildkitd keeps", err)
	}
	runs, err := e.runsOfRecords(ctx, s, k, kept)
	if err != nil {
		return e.failed("find the runs of what buildkitd keeps", err)
	}
	for _, r := range kept { // before images, by which records without a description are known
		left.Add(runs[r.ID], owned.KindCache, r.ID)
	}
	all, err := s.client.ImageService().List(k.within(ctx))
	for _, i := range all {
		left.Add(owned.RunOf(i.Name), owned.KindImage, k.namespace+kitSpace+i.Name)
	}
	return e.failed("list images of buildkitd", err)
}

// isOfBuild reports whether buildLeftovers has listed it.
func isOfBuild(l bench.Leftover) bool {
	return l.Kind == owned.KindCache || l.Kind == owned.KindImage && strings.Contains(l.ID, kitSpace)
}

// removeOfBuild removes what buildLeftovers has listed, with all that buildkitd keeps of that run.
func (e *Engine) removeOfBuild(ctx context.Context, s *server, l bench.Leftover) error {
	k, err := e.findBuildkit(ctx, s)
	if err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(l.ID, k.namespace+kitSpace); ok && owned.RunOf(name) == l.Run {
		return e.removeImage(k.within(ctx), s, name)
	}
	if l.Kind != owned.KindCache {
		return e.run.NotLeftover(l)
	}
	return e.removeBuilds(ctx, s, k, l.Run)
}

var _ bench.ImageBuilder = (*Engine)(nil)
