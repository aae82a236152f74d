package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/trace"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
	"github.com/tare-bench/tare/internal/workload/start"
)

// An Explained is something whose time can be explained.
type Explained struct {
	Name       string            // as users write it
	Doc        string            // what it is
	Experiment string            // a built-in one, in which it is measured
	Params     map[string]string // of the experiment's workload
	Metric     string            // that has this time
}

// Explainable lists what can be explained, the usual first.
func Explainable() []Explained {
	operations := func(all string) map[string]string { return map[string]string{"operations": all} }
	return []Explained{
		{"first", "to the first instruction inside", "lifecycle", nil, lifecycle.First},
		{"ready", "until a service accepts connections", "start", nil, start.Ready},
		{"exec", "to run another program in a container", "lifecycle", operations("create,start,exec,stop,remove"), lifecycle.Exec},
		{"stop", "to stop a container", "lifecycle", operations("create,start,stop,remove"), lifecycle.Stop},
		{"kill", "to kill a container", "lifecycle", operations("create,start,kill,remove"), lifecycle.Kill},
		{"remove", "to remove a container that has ended", "lifecycle", nil, lifecycle.Remove},
	}
}

// CodeNotTraced is the code of a run's warning that it could not have the timelines that it was asked for.
// Its plan then has none.
const CodeNotTraced = "timeline-not-supported"

// CanTrace returns why a run of the plan cannot have timelines here, whether it asks for them or not; the
// error wraps bench.ErrUnsupported. It is nil if the run can. It takes a second or so.
func (p *Planned) CanTrace(ctx context.Context) error {
	if err := p.traceable(ctx); err != nil {
		return err
	}
	t, err := trace.Open(trace.Options{})
	if err != nil {
		return err
	}
	return t.Close()
}

// traceable refuses plans whose trials have nothing to trace on this host.
func (p *Planned) traceable(ctx context.Context) error {
	w := p.Workload
	if slices.ContainsFunc(p.usedInstances(), func(i Instance) bool { return i.Driver == RemoteDriver }) {
		return fmt.Errorf("%w: the containers are on another machine", bench.ErrUnsupported)
	}
	if _, ok := w.(bench.Traceable); !ok {
		return fmt.Errorf("%w: workload %s has no timeline", bench.ErrUnsupported, w.Name())
	}
	for _, e := range p.Used() {
		if err := e.followable(ctx); err != nil {
			return err
		}
	}
	return nil
}

// followable refuses an engine whose processes cannot be followed, because they are far away or not always there. What
// cannot be used has no trials, and a service that tare starts is known then.
func (e *Probed) followable(ctx context.Context) error {
	r, ok := bench.As[bench.ProcessReporter](e.Engine)
	if !ok || e.Err != nil || slices.Contains(e.Info.Facts, podman.OwnService) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	daemons, err := r.Daemons(ctx)
	switch {
	case errors.Is(err, bench.ErrUnsupported):
		return err
	case err != nil:
		return fmt.Errorf("%w: the processes of %s cannot be found: %w", bench.ErrUnsupported, e.Name, err)
	case len(daemons) == 0 && e.Driver == "podman":
		return fmt.Errorf("%w: the service of %s is started on demand, so its processes cannot be followed: stop the "+
			"systemd unit podman.socket, and tare starts a service for the run", bench.ErrUnsupported, e.Name)
	default:
		return nil
	}
}

// openTracer gets ready to trace if the plan asks for it, until the machine is closed. If that cannot be, the
// plan loses its timelines, and the run says why. It is no failure of the run.
func (m *machine) openTracer(ctx context.Context, p *Planned) []bench.Warning {
	if p.Plan.Timeline == 0 {
		return nil
	}
	err := p.traceable(ctx)
	if err == nil {
		m.tracer, err = trace.Open(trace.Options{})
	}
	if err == nil {
		return nil
	}
	p.Plan.Timeline = 0
	return []bench.Warning{{Code: CodeNotTraced, Text: "there is no timeline: " + err.Error()}}
}

// resumeTracing gets ready to trace if the stored run did: its schedule has traced trials.
func (m *machine) resumeTracing(ctx context.Context, p *Planned) error {
	for _, w := range m.openTracer(ctx, p) {
		return &Problem{Kind: NotTraced, Err: errors.New("the run has timelines, but now " + w.Text)}
	}
	return nil
}

// traceEngines tells the tracer which processes belong to the engines of a run. An engine is asked once, unless
// its daemon is another one meanwhile: to answer, it works just before what is traced.
func (m *machine) traceEngines(cells []bench.Cell, engines map[string]bench.Engine) {
	if m.tracer == nil {
		return
	}
	known := map[string][]int{}
	ended := func(pid int) bool { return !proc.IsRunning(fsRoot, pid) }
	m.tracer.Daemons = func(ctx context.Context, cell int) []int {
		name := cells[cell].Engine
		r, ok := bench.As[bench.ProcessReporter](engines[name])
		if !ok {
			return nil
		}
		if known[name] == nil || slices.ContainsFunc(known[name], ended) {
			known[name], _ = r.Daemons(ctx) // it could tell when the run began; if not now, its trials are incomplete
		}
		return known[name]
	}
}

// stopTracing removes the programs from the kernel.
func (m *machine) stopTracing() error {
	if m.tracer == nil {
		return nil
	}
	return m.tracer.Close()
}

// timelineFinding says whether starts can be traced here.
func timelineFinding() host.Finding {
	f := host.Finding{Name: "timeline", Status: host.Good, Text: "--timeline works"}
	t, err := trace.Open(trace.Options{})
	if err == nil {
		err = t.Close()
	}
	if err != nil {
		f.Status, f.Text = host.Note, "--timeline does not work: "+err.Error()
	}
	return f
}
