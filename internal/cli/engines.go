package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/cri"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/engine/remote"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/image"
)

// probeTime is the longest time for asking one engine what it is.
const probeTime = 10 * time.Second

// site is where the engines of one run work.
type site struct {
	run    string
	dir    string
	images *image.Library
	link   func(address string) *remote.Link // to another machine
}

func (a *invocation) newSite(run, dir string) site {
	return site{run: run, dir: dir, images: image.NewLibrary(dir), link: a.links.to}
}

// driver is a kind of engine, and how an instance of it is made.
type driver struct {
	name    string
	options []string // that an instance may set
	open    func(s site, name string, options map[string]string) bench.Engine
}

// drivers lists every kind of engine in the program.
func drivers() []driver {
	return []driver{
		{"native", nil, func(s site, name string, _ map[string]string) bench.Engine {
			return native.New(native.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.images})
		}},
		{"floor", nil, func(s site, name string, _ map[string]string) bench.Engine {
			return floor.New(floor.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.images})
		}},
		{"oci", []string{"binary"}, func(s site, name string, o map[string]string) bench.Engine {
			return oci.New(oci.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.images, Binary: o["binary"]})
		}},
		{"docker", []string{"host"}, func(s site, name string, o map[string]string) bench.Engine {
			return docker.New(docker.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.images, Host: o["host"]})
		}},
		{"podman", []string{"host"}, func(s site, name string, o map[string]string) bench.Engine {
			return podman.New(podman.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.images, Host: o["host"]})
		}},
		{"containerd", []string{"address", "runtime", "snapshotter"}, func(s site, name string, o map[string]string) bench.Engine {
			return containerd.New(containerd.Config{
				Name: name, Run: s.run, Dir: s.dir, Images: s.images,
				Address: o["address"], Runtime: o["runtime"], Snapshotter: o["snapshotter"],
			})
		}},
		{"cri", []string{"endpoint", "handler", "pause"}, func(s site, name string, o map[string]string) bench.Engine {
			return cri.New(cri.Config{
				Name: name, Run: s.run, Dir: s.dir, Images: s.images,
				Endpoint: o["endpoint"], RuntimeHandler: o["handler"], PauseImage: o["pause"],
			})
		}},
		{remoteDriver, []string{"at", "engine"}, func(s site, name string, o map[string]string) bench.Engine {
			return remote.New(remote.Config{Name: name, Engine: cmp.Or(o["engine"], name), Link: s.link(o["at"])})
		}},
	}
}

// instance is an engine by name: a driver and its options.
type instance = experiment.Instance

// builtinInstances are the engines that need no declaration, in the order in
// which they are shown.
func builtinInstances() []instance {
	return []instance{
		{Name: "native", Driver: "native"},
		{Name: "floor", Driver: "floor"},
		{Name: "crun", Driver: "oci", Options: map[string]string{"binary": "crun"}},
		{Name: "runc", Driver: "oci", Options: map[string]string{"binary": "runc"}},
		{Name: "youki", Driver: "oci", Options: map[string]string{"binary": "youki"}},
		{Name: "runsc", Driver: "oci", Options: map[string]string{"binary": "runsc"}},
		{Name: "containerd", Driver: "containerd"},
		{Name: "podman", Driver: "podman"},
		{Name: "docker", Driver: "docker"},
		{Name: "cri", Driver: "cri"},
	}
}

// rank lists engines in the order in which an experiment that has room for a few
// takes them: those with a service, as people use them; then the runtimes under
// them; then the kernel's own isolation.
func rank() []string {
	return []string{"docker", "podman", "containerd", "cri", "runc", "crun", "youki", "runsc", "floor"}
}

// instances joins engines, such as the built-in ones, with those that an
// experiment or a flag declares; a declaration of the same name replaces one.
func instances(all, declared []instance) []instance {
	all = slices.Clone(all)
	for _, d := range declared {
		if i := slices.IndexFunc(all, func(e instance) bool { return e.Name == d.Name }); i >= 0 {
			all[i] = d
			continue
		}
		all = append(all, d)
	}
	return all
}

func names(all []instance) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.Name)
	}
	return out
}

// openEngine makes the engine of an instance.
func openEngine(s site, i instance) (bench.Engine, error) {
	for _, d := range drivers() {
		if d.name != i.Driver {
			continue
		}
		for _, option := range slices.Sorted(maps.Keys(i.Options)) {
			if !slices.Contains(d.options, option) {
				return nil, &usageError{
					fmt.Errorf("engine %s: driver %s has no option %q", i.Name, d.name, option),
					"its options are: " + strings.Join(d.options, ", "),
				}
			}
		}
		return d.open(s, i.Name, i.Options), nil
	}
	var known []string
	for _, d := range drivers() {
		known = append(known, d.name)
	}
	return nil, &usageError{fmt.Errorf("engine %s: no driver %q", i.Name, i.Driver), "the drivers are: " + strings.Join(known, ", ")}
}

// probed is an engine with what a probe found out about it.
type probed struct {
	instance instance
	engine   bench.Engine
	info     bench.EngineInfo
	err      error // see bench.ErrUnsupported
}

// probe asks every instance, side by side, what it is.
func probe(ctx context.Context, s site, all []instance) ([]probed, error) {
	out := make([]probed, len(all))
	for i, inst := range all {
		e, err := openEngine(s, inst)
		if err != nil {
			return nil, err
		}
		out[i] = probed{instance: inst, engine: e}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	done := make(chan int)
	for i := range out {
		go func() {
			out[i].info, out[i].err = out[i].engine.Probe(ctx)
			out[i].err = slow(out[i].err)
			out[i].info.Options = out[i].instance.Options
			done <- i
		}()
	}
	for range out {
		<-done
	}
	return out, nil
}

// slow tells an engine that has not answered in time from one that cannot be used.
func slow(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer within %v: try again when this machine, or the engine's daemon, has less to do", err, probeTime)
	}
	return err
}

// closeEngines releases engines after an interruption as well.
func closeEngines(ctx context.Context, engines map[string]bench.Engine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		if err := engines[name].Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
