package run

import (
	"cmp"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A watch runs the instruments in each trial.
type watch struct {
	instruments []bench.Instrument
	metrics     []int             // the number that each instrument has
	calls       bench.CallCounter // nil if system calls are not counted
}

func newWatch(all []bench.Instrument) watch {
	w := watch{instruments: all}
	for _, i := range all {
		w.metrics = append(w.metrics, len(i.Metrics()))
		if c, ok := i.(bench.CallCounter); ok {
			w.calls = c
		}
	}
	return w
}

// begin is called just before the timed part of a trial.
func (w *watch) begin(t bench.Trial, began time.Duration) {
	for _, i := range w.instruments {
		i.Begin(t, began)
	}
}

// end is called just after the timed part. The instruments' values come last in m's.
func (w *watch) end(m *meter) {
	dst := m.values
	for n, i := range slices.Backward(w.instruments) {
		rest := len(dst) - w.metrics[n]
		i.End(dst[rest:])
		dst = dst[:rest]
	}
}

// suspend stops watching a trial until resume is called. Instruments that are no bench.Switcher
// go on.
func (w *watch) suspend() (resume func()) {
	var all []func()
	for _, i := range slices.Backward(w.instruments) {
		if s, ok := i.(bench.Switcher); ok {
			all = append(all, s.Suspend())
		}
	}
	return func() {
		for _, one := range slices.Backward(all) {
			one()
		}
	}
}

// trace returns the events of a trial that has ended, and those of its stages; nil if there are none.
func (w *watch) trace(stages []bench.TraceEvent) *bench.Trace {
	var t bench.Trace
	room := bench.MaxTraceBytes
	add := func(e bench.TraceEvent) {
		size := e.Size()
		if e.At < 0 || e.Name == "" || size > room || len(t.Events) == bench.MaxTraceEvents {
			t.LeftOut++
			return
		}
		room -= size
		t.Events = append(t.Events, e)
	}
	for _, e := range stages {
		add(e)
	}
	for _, i := range w.instruments {
		if tracer, ok := i.(bench.Tracer); ok {
			for e := range tracer.Trace() {
				add(e)
			}
		}
	}
	if len(t.Events) == 0 && t.LeftOut == 0 {
		return nil
	}
	slices.SortStableFunc(t.Events, func(a, b bench.TraceEvent) int { return cmp.Compare(a.At, b.At) })
	return &t
}

// engine returns e, with the counter of system calls if there is one.
func (w *watch) engine(e bench.Engine) bench.Engine {
	if w.calls == nil {
		return e
	}
	return counted{e, w.calls}
}

// counted is an engine whose containers' system calls are counted.
type counted struct {
	bench.Engine
	bench.CallCounter
}

// Unwrap returns the engine itself, for As.
func (c counted) Unwrap() bench.Engine { return c.Engine }
