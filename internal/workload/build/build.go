// Package build is the workload that builds an image from a build file and a context, without a cache
// and again with it.
package build

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// The names of the metrics.
const (
	Total   = "build.total"
	Rebuild = "build.rebuild"
	Context = "build.context"
	RunStep = "build.run"
	Copy    = "build.copy"
	Stage   = "build.stage_copy"
	Other   = "build.other"
	Export  = "build.export"
	Size    = "build.size"
)

// The codes of the notes.
const (
	NoteReran   = "build-reran"
	NoteRounded = "build-rounded"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return "build" }

func (workload) Doc() string {
	return "An image built by the engine's own command, step by step: without a cache, and again with the cache of " +
		"that build."
}

func (workload) Metrics() []bench.Metric {
	m := func(name, title string, role bench.Role, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale, Doc: doc}
	}
	detail := func(name, title, doc string) bench.Metric { return m(name, title, bench.Detail, bench.Difference, doc) }
	return []bench.Metric{
		m(Total, "build", bench.Primary, bench.Ratio,
			"From the start of the command that builds the image without a cache to its end."),
		m(Rebuild, "rebuild with cache", bench.Primary, bench.Ratio,
			"From the start of the same command, when every step is in the cache, to its end."),
		detail(Context, "context",
			"Classic builder: from the start of the command until its first step begins. BuildKit: how long it loaded the "+
				"context, by its own clock. Podman reads the context in place."),
		detail(RunStep, "steps that run", "Time of all RUN steps together; steps side by side count in full."),
		detail(Copy, "steps that copy", "Time of all COPY and ADD steps from the context together."),
		detail(Stage, "copies between stages", "Time of all COPY steps with --from together."),
		detail(Other, "other steps", "Time of all other steps together, such as FROM and LABEL."),
		detail(Export, "export",
			"From the end of the last step until the image is stored: of BuildKit and podman, which store it apart."),
		{
			Name: Size, Title: "image size", Unit: "B", Better: bench.Lower, Role: bench.Detail, Scale: bench.Ratio,
			Doc: "Size of the image, as the engine counts it, with the image that it is built from.",
		},
	}
}

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{
		{
			Code: NoteReran, Metric: Rebuild,
			Text:   "rebuilds of {cells} ran steps again, although nothing had changed",
			Advice: "the cache does not hold these steps, so the time of the rebuild includes them: build by hand to see which",
		},
		{
			Code:   NoteRounded,
			Text:   "step times of {cells} are sums of tenths of a second, because this docker command tells no better",
			Advice: "install buildx 0.13 or newer with docker 23 or newer; the whole times are exact",
		},
	}
}

// Check implements bench.Workload.
func (workload) Check(ctx context.Context, t bench.Task) error {
	o, err := parse(t.Params)
	if err != nil {
		return err
	}
	builder, ok := bench.As[bench.ImageBuilder](t.Engine)
	if !ok {
		return fmt.Errorf("%w: engine %s builds no images: use docker or podman, or containerd with buildkitd",
			bench.ErrUnsupported, t.Engine.Name())
	}
	spec := t.Spec
	if spec.Image == bench.AgentImage {
		spec.Image = ""
	}
	if !reflect.DeepEqual(spec, bench.Spec{}) {
		return fmt.Errorf("%w: build takes no image, network, limit or other setting of containers: write them into your "+
			"build file, and name it with the option file", bench.ErrUnsupported)
	}
	_, err = builder.BuildTool(ctx, o.builder)
	return err
}

// A fixture is what the trials of a cell share: the context.
type fixture struct {
	options
	engine bench.Engine
	run    string
	home   string // the directory of the run
	dir    string // where the context and the build file are
	text   string // of the user's build file
	mark   string // of the next trial
}

// Setup implements bench.Fixturer.
func (workload) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	o, err := parse(t.Params)
	if err != nil {
		return nil, err
	}
	f := &fixture{
		options: o, engine: t.Engine, run: t.Run, home: t.Dir, dir: filepath.Join(t.Dir, "build", strconv.Itoa(t.Cell)),
	}
	// The directories above let everybody pass, and the path is in the arguments of the builder's command: nobody else
	// may read what a user may keep in a closed place. Builders read it as this user.
	err = os.MkdirAll(f.dir, 0o700)
	if err == nil {
		err = os.Mkdir(f.contextDir(), 0o755)
	}
	if err == nil {
		err = f.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(bench.AdviseRoom(ctx, t.Engine, t.Dir, err), os.RemoveAll(f.dir))
	}
	return f, nil
}

func (f *fixture) contextDir() string { return filepath.Join(f.dir, "context") }
func (f *fixture) buildFile() string  { return filepath.Join(f.dir, "Dockerfile") }

// fill brings the user's files into the directory of the run.
func (f *fixture) fill(ctx context.Context) error {
	if f.generated() {
		return nil // Reset makes them
	}
	from, file := f.context, f.file
	if from == "" {
		from = filepath.Dir(file)
	}
	if file == "" {
		file = fileIn(from)
	}
	text, err := readFile(file)
	if err != nil {
		return fmt.Errorf("build file: %w", err)
	}
	f.text = string(text)
	if _, err := markStages(f.text, "check", f.run); err != nil {
		return fmt.Errorf("build file %s: %w", file, err)
	}
	ignored, err := readFile(file + ignoreSuffix)
	if err == nil {
		err = os.WriteFile(f.buildFile()+ignoreSuffix, ignored, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what the build file leaves out: %w", err)
	}
	return copyTree(ctx, f.contextDir(), from)
}

// Reset implements bench.Fixture. It gives the next build a new mark, and makes every file of the context
// one that no builder has seen.
func (f *fixture) Reset(ctx context.Context) error {
	return bench.AdviseRoom(ctx, f.engine, f.home, f.renew(ctx))
}

func (f *fixture) renew(ctx context.Context) error {
	f.mark = bench.BuildMark(f.run, strings.ToLower(rand.Text()[:16]))
	text, err := f.text, error(nil)
	if f.generated() {
		text = generatedFile(f.steps, f.mark)
		err = f.content.write(ctx, f.contextDir())
	} else {
		err = touchTree(ctx, f.contextDir())
	}
	if err != nil {
		return err
	}
	if text, err = markStages(text, f.mark, f.run); err != nil {
		return err
	}
	return os.WriteFile(f.buildFile(), []byte(text), 0o644)
}

// Remove implements bench.Fixture.
func (f *fixture) Remove(context.Context) error { return os.RemoveAll(f.dir) }
