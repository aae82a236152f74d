package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/cri"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/kubernetes"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/engine/remote"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/image"
)

const (
	// probeTime is the longest time for asking one engine what it is.
	probeTime = 10 * time.Second
	// remoteProbeTime is the same where tare may first have to be copied to another machine.
	remoteProbeTime = 5 * time.Minute
)

// An EngineSite is where the engines of one run, or of one command, work.
type EngineSite struct {
	Images *image.Library

	run  string
	dir  string
	link func(address string) *remote.Link // to another machine
}

// EngineSite returns a place for engines: what they make is called after run and lies in dir,
// which may be empty if they make nothing.
func (a *App) EngineSite(run, dir string) *EngineSite {
	return &EngineSite{run: run, dir: dir, Images: image.NewLibrary(dir), link: a.connections.to}
}

// runSite is the place of a run, or of what looks at runs.
func (a *App) runSite(run string) *EngineSite { return a.EngineSite(run, a.runDir(run)) }

// runDir is the directory of a run.
func (a *App) runDir(id string) string { return filepath.Join(a.state, "runs", id) }

// driver is a kind of engine, and how an instance of it is made.
type driver struct {
	name    string
	options []string // that an instance may set
	open    func(s *EngineSite, name string, options map[string]string) bench.Engine
}

// hasOptions reports whether all of these are options that an instance may set.
func (d driver) hasOptions(options map[string]string) bool {
	for name := range options {
		if !slices.Contains(d.options, name) {
			return false
		}
	}
	return true
}

// drivers lists every kind of engine in the program.
func drivers() []driver {
	return []driver{
		{"native", nil, func(s *EngineSite, name string, _ map[string]string) bench.Engine {
			return native.New(native.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.Images})
		}},
		{"floor", nil, func(s *EngineSite, name string, _ map[string]string) bench.Engine {
			return floor.New(floor.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.Images})
		}},
		{"oci", []string{"binary"}, func(s *EngineSite, name string, o map[string]string) bench.Engine {
			return oci.New(oci.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.Images, Binary: o["binary"]})
		}},
		{"docker", []string{"host"}, func(s *EngineSite, name string, o map[string]string) bench.Engine {
			return docker.New(docker.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.Images, Host: o["host"]})
		}},
		{"podman", []string{"host"}, func(s *EngineSite, name string, o map[string]string) bench.Engine {
			return podman.New(podman.Config{Name: name, Run: s.run, Dir: s.dir, Images: s.Images, Host: o["host"]})
		}},
		{"containerd", []string{
			"address", "runtime", "snapshotter",
		}, func(s *EngineSite, name string, o map[string]string) bench.Engine {
			return containerd.New(containerd.Config{
				Name: name, Run: s.run, Dir: s.dir, Images: s.Images,
				Address: o["address"], Runtime: o["runtime"], Snapshotter: o["snapshotter"],
			})
		}},
		{"cri", []string{"endpoint", "handler", "pause"}, func(s *EngineSite, name string, o map[string]string) bench.Engine {
			return cri.New(cri.Config{
				Name: name, Run: s.run, Dir: s.dir, Images: s.Images,
				Endpoint: o["endpoint"], RuntimeHandler: o["handler"], PauseImage: o["pause"],
			})
		}},
		{"kubernetes", []string{
			"kubeconfig", "context", "namespace", "node", "endpoint", "pause",
		}, func(s *EngineSite, name string, o map[string]string) bench.Engine {
			return kubernetes.New(kubernetes.Config{
				Name: name, Run: s.run, Dir: s.dir, Kubeconfig: o["kubeconfig"], Context: o["context"],
				Namespace: o["namespace"], Node: o["node"],
				Runtime: cri.New(cri.Config{
					Name: name, Run: s.run, Dir: s.dir, Images: s.Images, Endpoint: o["endpoint"], PauseImage: o["pause"],
				}),
			})
		}},
		{RemoteDriver, []string{"at", "engine", "address"}, func(
			s *EngineSite, name string, o map[string]string,
		) bench.Engine {
			return remote.New(remote.Config{
				Name: name, Engine: cmp.Or(o["engine"], name), Link: s.link(o["at"]), Address: o["address"],
			})
		}},
	}
}

// An Instance is an engine by name: a driver and its options.
type Instance = experiment.Instance

// Builtin lists the engines that need no declaration, in the order in
// which they are shown.
func Builtin() []Instance {
	return []Instance{
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

// OnRequest are engines that need no declaration either, but are asked nothing before somebody names them: what they reach
// can be other people's.
func OnRequest() []Instance { return []Instance{{Name: "kubernetes", Driver: "kubernetes"}} }

// enginePreference lists engines in the order in which an experiment that has room for a few
// takes them: those with a service, as people use them; then the runtimes under
// them; then the kernel's own isolation.
func enginePreference() []string {
	return []string{"docker", "podman", "containerd", "cri", "runc", "crun", "youki", "runsc", "floor"}
}

// ImageLoaders lists the drivers whose engines are a bench.ImageLoader, by preference.
func ImageLoaders() (names []string) {
	for _, name := range enginePreference() {
		i := slices.IndexFunc(drivers(), func(d driver) bool { return d.name == name })
		if i < 0 {
			continue // a runtime, which has no store
		}
		if _, ok := bench.As[bench.ImageLoader](drivers()[i].open(&EngineSite{}, name, nil)); ok {
			names = append(names, name)
		}
	}
	return names
}

// isBuiltIn reports whether the name alone declares the instance.
func isBuiltIn(i Instance) bool {
	return slices.ContainsFunc(Builtin(), func(b Instance) bool { return same(b, i) })
}

// same reports whether two declarations are of one engine. Those of one name can be several, such as one for each cluster.
func same(a, b Instance) bool {
	return a.Name == b.Name && a.Driver == b.Driver && maps.Equal(a.Options, b.Options)
}

// WithDeclared joins engines, such as the built-in ones, with those that an
// experiment or a flag declares; a declaration of the same name replaces one.
func WithDeclared(all, declared []Instance) []Instance {
	all = slices.Clone(all)
	for _, d := range declared {
		if i := slices.IndexFunc(all, func(e Instance) bool { return e.Name == d.Name }); i >= 0 {
			all[i] = d
			continue
		}
		all = append(all, d)
	}
	return all
}

// Names are the names of engines.
func Names(all []Instance) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.Name)
	}
	return out
}

// Engine makes the engine of an instance. Whether it can be used, its Probe says.
func (s *EngineSite) Engine(i Instance) (bench.Engine, error) {
	for _, d := range drivers() {
		if d.name != i.Driver {
			continue
		}
		for _, option := range slices.Sorted(maps.Keys(i.Options)) {
			if !slices.Contains(d.options, option) {
				return nil, &Problem{
					Kind: NoOption, Names: d.options,
					Err: fmt.Errorf("engine %s: driver %s has no option %q", i.Name, d.name, option),
				}
			}
		}
		return d.open(s, i.Name, i.Options), nil
	}
	var known []string
	for _, d := range drivers() {
		known = append(known, d.name)
	}
	return nil, &Problem{Kind: NoDriver, Names: known, Err: fmt.Errorf("engine %s: unknown driver %q", i.Name, i.Driver)}
}

// Probed is an engine with what a probe has found out about it.
type Probed struct {
	Instance
	Engine bench.Engine
	Info   bench.EngineInfo
	Err    error // why it cannot be used; see bench.ErrUnsupported
	// Lacking are those hosts that cannot use it, where several measure together.
	Lacking []string
}

// Probe asks all instances at the same time what they are. An error means that an
// instance cannot exist, such as one with an unknown option.
func (s *EngineSite) Probe(ctx context.Context, all []Instance) ([]Probed, error) {
	out := make([]Probed, len(all))
	for i, inst := range all {
		e, err := s.Engine(inst)
		if err != nil {
			return nil, err
		}
		out[i] = Probed{Instance: settled(inst, e), Engine: e}
	}
	limit := probeTime
	if slices.ContainsFunc(all, func(i Instance) bool { return i.Driver == RemoteDriver }) {
		limit = remoteProbeTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan int)
	for i := range out {
		go func() {
			out[i].Info, out[i].Err = out[i].Engine.Probe(ctx)
			out[i].Err = explainTimeout(out[i].Err, limit)
			out[i].Info.Options, out[i].Info.BuiltIn = out[i].Instance.Options, isBuiltIn(out[i].Instance)
			done <- i
		}()
	}
	for range out {
		<-done
	}
	return out, nil
}

// settled is an instance with the options that a bench.Settler adds, for whoever opens it again.
func settled(i Instance, e bench.Engine) Instance {
	s, ok := bench.As[bench.Settler](e)
	if !ok {
		return i
	}
	i.Options = maps.Clone(i.Options)
	for name, value := range s.Settled() {
		if value == "" {
			continue
		}
		if i.Options == nil {
			i.Options = map[string]string{}
		}
		i.Options[name] = value
	}
	return i
}

// explainTimeout tells an engine that has not answered in time from one that cannot be used.
func explainTimeout(err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer within %v: try again when this machine, or the engine's daemon, is less busy", err,
			limit)
	}
	return err
}

// CloseEngines releases engines, also once ctx has ended.
func CloseEngines(ctx context.Context, engines map[string]bench.Engine) error {
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
