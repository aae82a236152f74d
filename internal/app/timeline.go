package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/kernel/trace"
)

// CodeNotTraced is the code of a run's warning that it could not have the timelines that it was asked for.
// Its plan then has none.
const CodeNotTraced = "timeline-not-supported"

// CanTrace returns why a run of the plan cannot have timelines here, whether it asks for them or not; the
// error wraps bench.ErrUnsupported. It is nil if the run can. It takes a second or so.
func (p *Planned) CanTrace() error {
	if err := p.traceable(); err != nil {
		return err
	}
	t, err := trace.Open(trace.Options{})
	if err != nil {
		return err
	}
	return t.Close()
}

// traceable refuses plans whose trials have nothing to trace on this host.
func (p *Planned) traceable() error {
	w := p.Workload
	if slices.ContainsFunc(p.usedInstances(), func(i Instance) bool { return i.Driver == RemoteDriver }) {
		return fmt.Errorf("%w: the containers are on another machine", bench.ErrUnsupported)
	}
	if _, ok := w.(bench.Traceable); !ok {
		return fmt.Errorf("%w: workload %s has no timeline", bench.ErrUnsupported, w.Name())
	}
	return nil
}

// openTracer gets ready to trace if the plan asks for it, until the machine is closed. If that cannot be, the
// plan loses its timelines, and the run says why. It is no failure of the run.
func (m *machine) openTracer(p *Planned) []bench.Warning {
	if p.Plan.Timeline == 0 {
		return nil
	}
	err := p.traceable()
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
func (m *machine) resumeTracing(p *Planned) error {
	for _, w := range m.openTracer(p) {
		return &Problem{Kind: NotTraced, Err: errors.New("the run has timelines, but now " + w.Text)}
	}
	return nil
}

// traceEngines tells the tracer which processes belong to the engines of a run.
func (m *machine) traceEngines(cells []bench.Cell, engines map[string]bench.Engine) {
	if m.tracer == nil {
		return
	}
	m.tracer.Daemons = func(ctx context.Context, cell int) []int {
		r, ok := bench.As[bench.ProcessReporter](engines[cells[cell].Engine])
		if !ok {
			return nil
		}
		pids, _ := r.Daemons(ctx) // an engine that cannot tell is seen from outside
		return pids
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
