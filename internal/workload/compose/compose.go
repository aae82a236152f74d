// Package compose is the workload that brings a project of several services up, until all of them are
// ready, and takes it down again: by a compose program of the user, or by a bare loop of the same calls
// to the engine. What compose adds is the difference.
//
// Compose makes its containers itself. The name of the project, which compose puts on all that it makes,
// has the run's ID, so that the engines' drivers find it (bench.Projecter).
package compose

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// The names of the metrics.
const (
	Up      = "up"
	Down    = "down"
	Command = "up.command"
	First   = "up.first"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return "compose" }

func (workload) Doc() string {
	return "A project of several services: up until all are ready, and down, by a compose program or by a bare loop " +
		"of the same calls to the engine."
}

func (workload) Metrics() []bench.Metric {
	m := func(name, title string, role bench.Role, doc string) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: bench.Ratio, Doc: doc,
		}
	}
	return []bench.Metric{
		m(Up, "compose up", bench.Primary,
			"From the start of the compose program until it has ended and all services are ready; with tool bare, from "+
				"the first call to the engine."),
		m(Down, "compose down", bench.Primary,
			"From the start of the compose program until it has ended; with tool bare, from the first to the end of the "+
				"last call to the engine."),
		m(Command, "up, the program alone", bench.Detail,
			"Like up, but until the program has ended or the last call has returned, whether services are ready or not."),
		m(First, "up of the first service", bench.Detail,
			"Like up, but until the first service is ready; its series has all services, in the order in which they "+
				"depend on each other. A file of the user has no such times."),
	}
}

// The values of option tool that are no program.
const (
	anyProgram = "compose"
	bare       = "bare"
)

const (
	dockerPlugin  = "docker compose"
	dockerCompose = "docker-compose"
	podmanCompose = "podman-compose"
)

const maxServices = 20

func (workload) Params() []bench.Param {
	return []bench.Param{
		{
			Name: "tool", Default: anyProgram,
			Valid: bench.OneOf(anyProgram, dockerPlugin, dockerCompose, podmanCompose, bare),
			Doc: "what makes the project: compose (the first that is installed, of docker compose, docker-compose and " +
				"podman-compose, that the engine can be used with), one of these, or bare (tare makes the same calls itself)",
		},
		{
			Name: "file", Default: "",
			Doc: "a compose file of yours, an absolute path, which tare starts as a project of its own; default: a generated " +
				"file",
			Valid: func(v string) error { // it is read where tare measures, which can be another directory or machine
				if v != "" && !filepath.IsAbs(v) {
					return fmt.Errorf("%.80q is not an absolute path", v)
				}
				return nil
			},
		},
		{
			Name: "services", Default: "3", Valid: bench.Between(1, maxServices),
			Doc: "number of services in the generated file, each of which depends on the one before it",
		},
		{
			Name: "timeout", Default: "1m", Valid: bench.DurationBetween(time.Second, time.Hour),
			Doc: "time from the beginning of up after which a service that is not ready has failed; the timeouts of " +
				"operation and trial apply too",
		},
	}
}

// CheckParams implements bench.ParamChecker.
func (workload) CheckParams(params map[string]string) error {
	if params["tool"] == bare && params["file"] != "" {
		return errors.New("tool bare makes only the generated project, because a compose file can ask for more than " +
			"tare's drivers do: leave out file or tool")
	}
	return nil
}

// Check implements bench.Workload.
func (w workload) Check(_ context.Context, t bench.Task) error {
	_, composable := bench.As[bench.Composable](t.Engine)
	_, projecter := bench.As[bench.Projecter](t.Engine)
	if !composable || !projecter {
		return fmt.Errorf("%w: engine %s: no compose program can use it: use docker or podman", bench.ErrUnsupported,
			t.Engine.Name())
	}
	if err := w.CheckParams(t.Params); err != nil { // of this cell; others may have another tool
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	if err := supervise.CheckOwn("compose", t.Spec); err != nil {
		return err
	}
	rest := t.Spec
	rest.Image, rest.Network, rest.Runtime = "", "", ""
	switch {
	case t.Spec.Network != "" && t.Spec.Network != "bridge":
		return fmt.Errorf("%w: network %s: a project has a bridge of its own: leave network out", bench.ErrUnsupported,
			t.Spec.Network)
	case t.Spec.Runtime != "" && t.Params["file"] != "":
		return fmt.Errorf("%w: runtime: name it in the compose file", bench.ErrUnsupported)
	case !reflect.DeepEqual(rest, bench.Spec{}):
		return fmt.Errorf("%w: workload compose has no limits, storage, ports, mounts and security options: leave them "+
			"out, or use a compose file that has them", bench.ErrUnsupported)
	}
	return nil
}

// Setup implements bench.Fixturer.
func (workload) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	p, err := newProject(ctx, t)
	if err != nil {
		err = bench.AdviseRoom(ctx, t.Engine, t.Dir, err)
		return nil, errors.Join(err, p.Remove(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	p, ok := t.Fixture.(*project)
	if !ok {
		return errors.New("the workload was not set up")
	}
	return bench.AdviseRoom(ctx, t.Engine, t.Dir, p.trial(ctx, m))
}
