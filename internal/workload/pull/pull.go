// Package pull is the workload of the cold start: an engine fetches an image, of which it
// has nothing yet, from a registry of tare's own, unpacks it, and makes a container of it.
package pull

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/registry"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/ready"
)

// The names of the metrics.
const (
	Total    = "pull.total"
	Cold     = "pull.cold_start"
	Ask      = "pull.ask"
	Download = "pull.download"
	Unpack   = "pull.unpack"
	Create   = "pull.create"
	Start    = "pull.start"
	Bytes    = "pull.bytes"
	Plain    = "pull.unpacked"
)

// New returns the workload. images returns a library that finds images and keeps its
// files below dir.
func New(images func(dir string) *image.Library) bench.Workload { return workload{images} }

type workload struct {
	images func(dir string) *image.Library
}

func (workload) Name() string { return "pull" }

func (workload) Doc() string {
	return "The cold start, phase by phase: the engine pulls a completely new image from a registry on loopback, " +
		"and creates and starts a container of it."
}

// StartTimes implements bench.Starter.
func (workload) StartTimes() []string { return []string{Cold, Start} }

func (workload) Metrics() []bench.Metric {
	m := func(name, title string, role bench.Role, doc string) bench.Metric {
		scale := bench.Difference
		if role == bench.Primary {
			scale = bench.Ratio
		}
		return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale, Doc: doc}
	}
	return append([]bench.Metric{
		m(Total, "pull", bench.Primary, "From the call that pulls the image to its return."),
		m(Cold, "cold start", bench.Primary,
			"Pull, create, and start until the first instruction of the process inside, by its own mark; with another "+
				"image than tare's until start returns or, with option ready, until the service is ready. Time "+
				"between the calls does not count."),
		m(Ask, "until the first request", bench.Detail,
			"From the call that pulls the image to the first request for it at the registry."),
		m(Download, "download", bench.Detail,
			"From the first request at the registry until the registry has handed the last byte of a layer to "+
				"the kernel."),
		m(Unpack, "unpack", bench.Detail,
			"The rest of the pull after that last byte. Unpacking during the download counts as download."),
		m(Create, "create after the pull", bench.Detail, "From the call that creates the container to its return."),
		m(Start, "start after the pull", bench.Detail,
			"From the call that starts the container to the end of the cold start."),
		{
			Name: Bytes, Title: "bytes pulled", Unit: "B", Better: bench.Lower, Role: bench.Detail, Scale: bench.Ratio,
			Doc: "Bytes of layers, configuration and manifests that the registry sent, without headers.",
		},
		{
			Name: Plain, Title: "bytes unpacked", Unit: "B", Better: bench.Lower, Role: bench.Detail, Scale: bench.Ratio,
			Doc: "Uncompressed bytes of the image's layer archives.",
		},
	}, supervise.Counters()...)
}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	o, err := parse(t.Params)
	if err != nil {
		return err
	}
	if _, ok := bench.As[bench.Puller](t.Engine); !ok {
		return fmt.Errorf(
			"%w: engine %s cannot pull images, because it has no image store: use docker, podman, containerd or cri",
			bench.ErrUnsupported, t.Engine.Name())
	}
	return o.ready.Check(t.Engine, t.Spec)
}

// Setup implements bench.Fixturer.
func (w workload) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	o, err := parse(t.Params)
	if err != nil {
		return nil, err
	}
	img, err := w.images(t.Dir).ResolveIn(ctx, t.Engine, t.Spec.Image)
	if errors.Is(err, image.ErrForeign) {
		return nil, fmt.Errorf("%w: pull serves the image itself, but engine %s cannot export images: %w",
			bench.ErrUnsupported, t.Engine.Name(), err)
	}
	if err != nil {
		return nil, err
	}
	o.ready = o.ready.WithPort(img.Port()).WithCommand(img.HealthCheck())
	if t.Spec, err = o.ready.Network(ctx, t); err == nil {
		err = o.ready.Known()
	}
	if err != nil {
		return nil, err
	}
	s := &fixture{
		task: t, ready: o.ready, spec: o.ready.Publish(t.Spec), digest: img.Digest(),
		name: bench.PullRepository(t.Run, t.Engine.Name()),
	}
	if o.ready.IsNone() && runsAgent(t.Spec) {
		s.marks, s.spec.Argv = true, []string{agent.Path, "mark", "hold"}
	}
	if s.prepared, err = registry.Prepare(ctx, filepath.Join(t.Dir, "registry"), img, o.fill); err != nil {
		return nil, err
	}
	if s.registry, err = registry.Listen(o.registry); err != nil {
		return nil, err
	}
	return s, nil
}

// runsAgent reports whether the process inside is tare's own choice.
func runsAgent(spec bench.Spec) bool {
	return len(spec.Argv) == 0 && (spec.Image == "" || spec.Image == bench.AgentImage)
}

// A fixture is what the trials of one cell share: a registry and its content.
type fixture struct {
	task     bench.Task
	spec     bench.Spec // without the image
	ready    ready.Condition
	marks    bool   // the process inside marks its own first instruction
	digest   string // of the image from which the pulled one is made
	name     string // of the repository
	prepared *registry.Prepared
	registry *registry.Registry
}

// Reset implements bench.Fixture.
func (*fixture) Reset(context.Context) error { return nil }

// Remove implements bench.Fixture. The content of the registry stays until the run's
// directory is removed, because other cells serve it too.
func (s *fixture) Remove(context.Context) error { return s.registry.Close() }

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	s, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the workload was not set up")
	}
	puller, ok := bench.As[bench.Puller](t.Engine)
	if !ok {
		return fmt.Errorf("%w: engine %s cannot pull images", bench.ErrUnsupported, t.Engine.Name())
	}
	content, err := s.prepared.Content()
	if err != nil {
		return err
	}
	v := &trial{fixture: s, spec: s.spec, puller: puller, meter: m, content: content}
	return v.run(ctx)
}
