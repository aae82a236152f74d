// Package start is the workload that measures how long a service takes to become ready.
package start

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/ready"
)

// The names of the metrics.
const (
	Ready   = "start.ready"
	Created = "start.created"
	Started = "start.started"
	Port    = "start.port"
)

// New returns the workload. images returns a library that finds images and keeps its
// files below dir.
func New(images func(dir string) *image.Library) bench.Workload { return workload{images} }

type workload struct {
	images func(dir string) *image.Library
}

func (workload) Name() string { return "start" }

func (workload) Doc() string {
	return "A service from the creation of its container until it is ready: its port accepts a connection, it " +
		"answers over HTTP, it logs a line, or its health check succeeds."
}

// StartTimes implements bench.Starter.
func (workload) StartTimes() []string { return []string{Ready, Started, Port} }

func (workload) Metrics() []bench.Metric {
	m := func(name, title string, role bench.Role, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale, Doc: doc}
	}
	return append([]bench.Metric{
		m(Ready, "time until ready", bench.Primary, bench.Ratio,
			"From the call that creates the container until the service is ready, as option ready defines it, without the "+
				"time between create and start."),
		m(Created, "create", bench.Detail, bench.Difference, "From the call that creates the container to its return."),
		m(Started, "start", bench.Detail, bench.Difference, "From the call that starts the container to its return."),
		m(Port, "time until its port accepts", bench.Detail, bench.Ratio,
			"Like the time until ready, but until the port accepts a connection; with ready: port and http."),
	}, supervise.Counters()...)
}

func (workload) Params() []bench.Param { return ready.Params(ready.Port) }

// Traceable implements bench.Traceable.
func (workload) Traceable() {}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	c, err := ready.Parse(t.Params)
	if err != nil {
		return err
	}
	return c.Check(t.Engine, t.Spec)
}

// Setup implements bench.Fixturer.
func (w workload) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	c, err := ready.Parse(t.Params)
	if err != nil {
		return nil, err
	}
	if t.Spec, err = c.Network(ctx, t); err != nil {
		return nil, err
	}
	if c, t.Spec.Argv, err = w.completeFromImage(ctx, t, c); err != nil {
		return nil, err
	}
	if err := c.Known(); err != nil {
		return nil, err
	}
	return &fixture{engine: t.Engine, spec: c.Publish(t.Spec), condition: c}, nil
}

// ownPort is the port of tare's own service in a network of its own.
const ownPort = 4811

// completeFromImage fills in, from the image, what the options leave open.
func (w workload) completeFromImage(
	ctx context.Context, t bench.Task, c ready.Condition,
) (ready.Condition, []string, error) {
	if len(t.Spec.Argv) == 0 && (t.Spec.Image == "" || t.Spec.Image == bench.AgentImage) {
		return agentService(t, c)
	}
	img, err := w.images(t.Dir).ResolveIn(ctx, t.Engine, t.Spec.Image)
	if errors.Is(err, image.ErrForeign) { // only the engine can read it
		return c, t.Spec.Argv, nil
	}
	if err != nil {
		return c, nil, err
	}
	return c.WithPort(img.Port()).WithCommand(img.HealthCheck()), t.Spec.Argv, nil
}

// agentService makes the agent the service.
func agentService(t bench.Task, c ready.Condition) (ready.Condition, []string, error) {
	port := uint16(ownPort)
	if !supervise.OwnNetwork(t.Spec.Network) && c.Port() == 0 {
		var err error
		if port, err = netpath.FreePort(netip.IPv4Unspecified(), "tcp"); err != nil {
			return c, nil, err
		}
	}
	c = c.WithPort(port)
	listens := strconv.Itoa(int(c.Port()))
	return c.WithCommand([]string{agent.Path, "probe", listens}), []string{agent.Path, "serve", listens}, nil
}

// fixture is what the trials of one cell share.
type fixture struct {
	engine    bench.Engine
	spec      bench.Spec
	condition ready.Condition
}

// Reset implements bench.Fixture.
func (s *fixture) Reset(ctx context.Context) error { return s.engine.Prepare(ctx, s.spec) }

// Remove implements bench.Fixture.
func (*fixture) Remove(context.Context) error { return nil }

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	s, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the workload was not set up")
	}
	return s.trial(ctx, m)
}

func (s *fixture) trial(ctx context.Context, m bench.Meter) error {
	if err := s.condition.Free(s.spec); err != nil {
		return err
	}
	p, err := s.condition.Start(ctx, s.engine, s.spec, m)
	if err != nil {
		return err
	}
	defer m.Cleanup(p.Remove)
	seen, err := p.Await(ctx)
	if err != nil {
		return err
	}
	create, start := p.Spans()
	since := func(moment float64) float64 { return create.Duration().Seconds() + moment - start.Begin.Seconds() }
	m.Record(Ready, since(seen.Ready.Seconds()))
	m.Record(Created, create.Duration().Seconds())
	m.Record(Started, start.Duration().Seconds())
	if seen.Port > 0 {
		m.Record(Port, since(seen.Port.Seconds()))
	}
	m.Stages(Ready, stages(create, start, seen.Ready, s.condition.Polls()))
	supervise.Record(m, p.Count(ctx))
	return m.Applied(s.spec, p.Applied(ctx, m))
}

// stages are those of which the time until ready is made. A line may be read before the call of start returns.
func stages(create, start bench.Span, seen time.Duration, polled bool) []bench.Stage {
	all := []bench.Stage{{Name: "create", Span: create}}
	if seen <= start.End {
		return append(all, bench.Stage{Name: "start", Span: bench.Span{Begin: start.Begin, End: seen}})
	}
	return append(all, bench.Stage{Name: "start", Span: start},
		bench.Stage{Name: "ready", Span: bench.Span{Begin: start.End, End: seen}, Polled: polled})
}
