package build

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	f, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the workload was not set up")
	}
	builder, ok := bench.As[bench.ImageBuilder](t.Engine)
	if !ok {
		return fmt.Errorf("%w: engine %s builds no images", bench.ErrUnsupported, t.Engine.Name())
	}
	tool, err := builder.BuildTool(ctx, f.builder) // found before the trial; the engine knows it
	if err != nil {
		return err
	}
	b := bench.Build{Mark: f.mark, File: f.buildFile(), Context: f.contextDir(), Builder: f.builder}
	if f.generated() {
		// Once more after the runner: another run that removes the same image may take it away meanwhile.
		b.Base = bench.AgentImage
		if err := t.Engine.Prepare(ctx, bench.Spec{Image: b.Base}); err != nil {
			return err
		}
	}
	v := &trial{engine: builder, meter: m, build: b}
	defer m.Cleanup(func(ctx context.Context) error { return builder.RemoveBuild(ctx, b) })
	if err := v.both(ctx); err != nil {
		return bench.AdviseRoom(ctx, t.Engine, t.Dir, err)
	}
	return m.Applied(bench.Spec{}, bench.Applied{Builder: tool})
}

// A trial is one build, and another one with the cache of the first.
type trial struct {
	engine bench.ImageBuilder
	meter  bench.Meter
	build  bench.Build
}

func (v *trial) run(ctx context.Context, metric string) (steps []bench.BuildStep, err error) {
	span, err := v.meter.Step(metric, func() (err error) {
		steps, err = v.engine.Build(ctx, v.build, v.meter.Now)
		return err
	})
	if err == nil {
		v.meter.Record(metric, span.Duration().Seconds())
	}
	return steps, err
}

// both builds without a cache, and with it.
func (v *trial) both(ctx context.Context) error {
	if err := v.cold(ctx); err != nil {
		return err
	}
	return v.warm(ctx)
}

// cold builds without a cache. A step that came from one fails the trial.
func (v *trial) cold(ctx context.Context) error {
	steps, err := v.run(ctx, Total)
	if err != nil {
		return err
	}
	worked := 0
	for _, s := range steps {
		if !works(s) {
			continue
		}
		if worked++; s.Cached {
			return fmt.Errorf("%w: the build without cache took a step from the cache: %.80s", bench.ErrMismatch,
				plain.Line(s.Text))
		}
	}
	if worked == 0 {
		return errors.New("the builder's output has no step: perhaps tare does not know this version")
	}
	v.report(steps)
	return v.attest(ctx)
}

// works reports whether a step makes a layer, so that it can be in the cache.
func works(s bench.BuildStep) bool {
	return s.Kind == bench.StepRun || s.Kind == bench.StepCopy || s.Kind == bench.StepStage
}

// report records the time of each kind of step that the builder tells.
func (v *trial) report(steps []bench.BuildStep) {
	sums, rounded := map[string]time.Duration{}, false
	for _, s := range steps {
		sums[metricOf(s.Kind)] += s.Took
		rounded = rounded || s.Rounded
	}
	for _, metric := range []string{Context, RunStep, Copy, Stage, Other, Export} {
		if sum, ok := sums[metric]; ok {
			v.meter.Record(metric, sum.Seconds())
		}
	}
	if rounded {
		v.meter.Note(NoteRounded)
	}
}

func metricOf(kind bench.StepKind) string {
	switch kind {
	case bench.StepContext:
		return Context
	case bench.StepRun:
		return RunStep
	case bench.StepCopy:
		return Copy
	case bench.StepStage:
		return Stage
	case bench.StepExport:
		return Export
	default:
		return Other
	}
}

// attest checks that the image is that of this build.
func (v *trial) attest(ctx context.Context) error {
	image, err := v.engine.Built(ctx, v.build)
	if err != nil {
		return err
	}
	if !bench.IsMarked(image.Label, v.build.Mark) {
		return fmt.Errorf("%w: the image has the label %.80q, not that of this build", bench.ErrMismatch, image.Label)
	}
	v.meter.Record(Size, float64(image.Size))
	return nil
}

// warm builds again.
func (v *trial) warm(ctx context.Context) error {
	v.build.Cached = true
	steps, err := v.run(ctx, Rebuild)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if works(s) && !s.Cached {
			v.meter.Note(NoteReran)
			break
		}
	}
	return nil
}
