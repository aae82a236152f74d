package pull_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/workload/pull"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

func workload(binary []byte) bench.Workload {
	return pull.New(func(dir string) *image.Library { return image.NewLibrary(dir, image.WithAgent(binary)) })
}

// small is little to pull.
func small(more ...string) map[string]string {
	given := map[string]string{"layers": "2", "size": "256KiB", "files": "3"}
	for i := 0; i < len(more); i += 2 {
		given[more[i]] = more[i+1]
	}
	return given
}

// A fetchingEngine is an engine that fetches images and makes nothing of them.
type fetchingEngine struct {
	*enginetest.Fake
	skip    int    // layers that it does not fetch
	failure error  // of each Pull
	other   string // image of its containers, in place of the one that it has
	stays   error  // of each Evict

	pulled, evicted []string
	digest          string
}

func newFetcher() *fetchingEngine {
	f := &fetchingEngine{}
	f.Fake = enginetest.NewFake(enginetest.FakeConfig{Now: run.Monotonic(), Applied: func(a *bench.Applied) {
		a.Image = f.digest
		if f.other != "" {
			a.Image = f.other
		}
	}})
	return f
}

func (f *fetchingEngine) Prepare(ctx context.Context, spec bench.Spec) error {
	spec.Image = ""
	return f.Fake.Prepare(ctx, spec)
}

func (f *fetchingEngine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	spec.Image = ""
	return f.Fake.Create(ctx, spec)
}

func (f *fetchingEngine) Pull(ctx context.Context, spec bench.Spec) error {
	f.pulled = append(f.pulled, spec.Image)
	if f.failure != nil {
		return f.failure
	}
	ref, err := name.ParseReference(spec.Image)
	if err != nil {
		return err
	}
	img, err := remote.Image(ref, remote.WithContext(ctx))
	if err != nil {
		return err
	}
	config, err := img.ConfigName()
	if err != nil {
		return err
	}
	f.digest = config.String()
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers[f.skip:] {
		if err := read(l); err != nil {
			return err
		}
	}
	return nil
}

func read(l v1.Layer) error {
	r, err := l.Compressed()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

func (f *fetchingEngine) Evict(_ context.Context, spec bench.Spec) error {
	f.evicted = append(f.evicted, spec.Image)
	return f.stays
}

// Phases add up, each pull is of another image, and what is stored is the same in
// every trial.
func TestPhases(t *testing.T) {
	w, e := workload([]byte("not a program")), newFetcher()
	samples := workloadtest.Trials{Workload: w, Engine: e, N: 2, Params: small()}.Run(t)
	for _, s := range samples {
		v := workloadtest.Values(w, s)
		if s.Outcome != bench.OK {
			t.Fatalf("%s: %s", s.Outcome, s.Reason)
		}
		equal(t, "pull", v[pull.Total], v[pull.Ask]+v[pull.Download]+v[pull.Unpack])
		equal(t, "cold start", v[pull.Cold], v[pull.Total]+v[pull.Create]+v[pull.Start])
		for _, name := range []string{pull.Ask, pull.Download, pull.Unpack, pull.Create, pull.Start} {
			if x, ok := v[name]; !ok || x < 0 {
				t.Errorf("%s = %v, %v", name, x, ok)
			}
		}
		// Of two layers of 256 KiB half remains.
		if v[pull.Bytes] < 200<<10 || v[pull.Bytes] > 400<<10 {
			t.Errorf("%v bytes", v[pull.Bytes])
		}
	}
	if len(e.pulled) != 2 || e.pulled[0] == e.pulled[1] || len(e.evicted) != 2 || e.evicted[0] != e.pulled[0] {
		t.Errorf("pulled %q, evicted %q; want two, each evicted", e.pulled, e.evicted)
	}
	if bench.PulledBy(e.pulled[0]) != "test" {
		t.Errorf("the run cannot be told from %q", e.pulled[0])
	}
	if one, two := samples[0].Applied.Image, samples[1].Applied.Image; one != two || one == e.digest || one == "" {
		t.Errorf("images %q and %q, want twice the one that was asked for", one, two)
	}
}

func equal(t *testing.T, what string, a, b float64) {
	t.Helper()
	if math.Abs(a-b) > 1e-9 {
		t.Errorf("%s: %v, its parts %v", what, a, b)
	}
}

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*fetchingEngine)
		operation string
		says      string
	}{
		"was there already": {func(f *fetchingEngine) { f.skip = 1 }, "", "the pull was not cold"},
		"pull fails":        {func(f *fetchingEngine) { f.failure = errors.New("no space") }, "pull", "no space"},
		"another image":     {func(f *fetchingEngine) { f.other = "sha256:00" }, "", "got sha256:00"},
		"cannot be evicted": {func(f *fetchingEngine) { f.stays = errors.New("in use") }, "clean-up", "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFetcher()
			test.change(e)
			s := workloadtest.Trials{Workload: workload([]byte("x")), Engine: e, Params: small()}.Run(t)[0]
			if s.Outcome != bench.Failed || s.Operation != test.operation || !strings.Contains(s.Reason, test.says) ||
				len(e.evicted) == 0 || e.Live() > 0 {
				t.Errorf("%s in %q: %s; evicted %q, %d containers left", s.Outcome, s.Operation, s.Reason, e.evicted, e.Live())
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	w := workload([]byte("x"))
	err := w.Check(t.Context(), workloadtest.Task(w, enginetest.NewFake(enginetest.FakeConfig{}), bench.Spec{}))
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "use docker, podman, containerd or cri") {
		t.Errorf("Check of an engine that pulls nothing: %v", err)
	}
	s := workloadtest.Trials{
		Workload: w, Engine: newFetcher(), Spec: bench.Spec{Image: "debian:12"}, Params: small(),
	}.Run(t)[0]
	if s.Outcome != bench.Unsupported || !strings.Contains(s.Reason, "cannot export images") {
		t.Errorf("an image of the engine's own: %s: %s", s.Outcome, s.Reason)
	}
}

func TestParams(t *testing.T) {
	for _, p := range workload(nil).Params() {
		if p.Valid != nil && p.Valid(p.Default) != nil {
			t.Errorf("the default of %s: %v", p.Name, p.Valid(p.Default))
		}
		for _, bad := range map[string][]string{
			"layers": {"-1", "101", "x"}, "size": {"0", "5GiB", "-1"}, "files": {"0", "1.5"}, "compressible": {"-1", "101", "half"},
			"bandwidth": {"-1", "fast"}, "connection": {"-1"}, "latency": {"-1s", "11s", "5"}, "ready": {"soon"}, "port": {"0"},
		}[p.Name] {
			if p.Valid(bad) == nil {
				t.Errorf("%s takes %q", p.Name, bad)
			}
		}
	}
	names := map[string]bool{}
	for _, m := range workload(nil).Metrics() {
		if names[m.Name] || m.Title == "" || m.Doc == "" {
			t.Errorf("%s is declared twice, or says nothing", m.Name)
		}
		names[m.Name] = true
	}
}

// Every engine that has a store, and each of its snapshotters: the cold start has
// all of its phases, and a bandwidth is seen in the download.
func TestEngines(t *testing.T) {
	binary := imagetest.Agent(t)
	w := workload(binary)
	for name, snapshotters := range map[string][]string{
		"docker": {""}, "podman": {""}, "containerd": {"overlayfs", "native"},
	} {
		for _, snapshotter := range snapshotters {
			t.Run(strings.Trim(name+" "+snapshotter, " "), func(t *testing.T) {
				s := enginetest.NewEnv(t, imagetest.Library(t))
				e := map[string]bench.Engine{
					"docker":     docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images}),
					"podman":     podman.New(podman.Config{Name: "podman", Run: s.Run, Dir: s.Dir, Images: s.Images}),
					"containerd": containerd.New(containerd.Config{Name: "containerd", Run: s.Run, Dir: s.Dir, Images: s.Images}),
				}[name]
				enginetest.Use(t, e)
				spec := bench.Spec{Snapshotter: snapshotter}
				for _, given := range []map[string]string{
					small("bandwidth", "4MiB"), small("ready", "log", "text", "^ready$", "layers", "0"),
				} {
					if given["ready"] != "" {
						spec.Argv = []string{agent.Path, "hold"}
					}
					sample := workloadtest.Trials{Workload: w, Engine: e, Spec: spec, Params: given}.Run(t)[0]
					v := workloadtest.Values(w, sample)
					if sample.Outcome != bench.OK || v[pull.Cold] <= v[pull.Total] || v[pull.Total] <= 0 {
						t.Fatalf("%v: %s: %s; %v", given, sample.Outcome, sample.Reason, v)
					}
					// manifests pass free
					if least := v[pull.Bytes] / (4 << 20) * 0.95; given["bandwidth"] != "" && v[pull.Download] < least {
						t.Errorf("%v s of download for %v bytes at 4 MiB/s, want at least %v", v[pull.Download], v[pull.Bytes], least)
					}
					t.Logf("%v", v)
				}
			})
		}
	}
}
