package run_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// tracer is an instrument that has one metric, sees events and counts system calls.
type tracer struct {
	journal *eventLog
	began   time.Duration // of the last trial
	events  []bench.TraceEvent
}

func (c *tracer) Metrics() []bench.Metric {
	return []bench.Metric{{Name: "traced", Role: bench.Counter}}
}

func (c *tracer) Begin(t bench.Trial, began time.Duration) {
	c.journal.add("trace %d", t.Seq)
	c.began = began
}

func (c *tracer) End(dst []float64) {
	c.journal.add("traced")
	for i := range dst {
		dst[i] = 5
	}
}

func (c *tracer) Trace() iter.Seq[bench.TraceEvent] {
	c.journal.add("ask for the trace")
	return slices.Values(c.events)
}

func (*tracer) SystemCalls(pid int) float64 { return float64(pid) }

// traced is a bed with a tracer around the machine.
func traced(t *testing.T, f func(context.Context, bench.Task, bench.Meter) error) (*harness, *tracer) {
	t.Helper()
	b := newHarness(t, bench.Plan{MaxBlocks: 1}, f, "a")
	c := &tracer{journal: &b.journal}
	b.options.Instruments = append([]bench.Instrument{c}, b.options.Instruments...)
	b.options.Header.Metrics = slices.Insert(b.options.Header.Metrics, 2, c.Metrics()...)
	return b, c
}

// Instruments watch the workload alone, one around the other, and each has its own
// metrics.
func TestInstruments(t *testing.T) {
	var b *harness
	b, c := traced(t, func(_ context.Context, _ bench.Task, m bench.Meter) error {
		b.journal.add("work")
		m.Record("work", 1)
		return nil
	})
	from := b.options.Clock()
	if _, err := run.Run(t.Context(), b.options); err != nil {
		t.Fatal(err)
	}
	want := "prepare a, settle, trace 0, before, work, after, traced, ask for the trace, store ok"
	if got := strings.Join(b.journal.lines, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	s := b.writer.samples[0]
	if d := cmp.Diff([]float64{1, math.NaN(), 5, 1, math.NaN()}, s.Values, cmp.Comparer(sameFloat)); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
	if s.Trace != nil {
		t.Errorf("a trace of nothing: %+v", s.Trace)
	}
	if c.began < from || c.began > b.options.Clock() {
		t.Errorf("the trial began at %v, after %v", c.began, from)
	}
}

// A trace is in order, has no more than there is room for, and says what is missing.
func TestTraceIsBounded(t *testing.T) {
	event := func(at time.Duration, name, source string) bench.TraceEvent {
		return bench.TraceEvent{At: at, Name: name, Source: source}
	}
	b, c := traced(t, work(time.Millisecond))
	c.events = []bench.TraceEvent{
		event(7, "later", ""), event(3, "sooner", "a"), event(3, "then", "b"), event(-1, "before the trial", ""),
		event(1, "", "nameless"),
		event(9, "large", strings.Repeat("x", bench.MaxTraceBytes)),
	}
	for range bench.MaxTraceEvents {
		c.events = append(c.events, event(9, "one of many", ""))
	}
	if _, err := run.Run(t.Context(), b.options); err != nil {
		t.Fatal(err)
	}
	got := b.writer.samples[0].Trace
	if got == nil || len(got.Events) != bench.MaxTraceEvents || got.LeftOut != 6 {
		t.Fatalf("trace %.200v", got)
	}
	want := []bench.TraceEvent{
		event(3, "sooner", "a"), event(3, "then", "b"), event(7, "later", ""), event(9, "one of many", ""),
	}
	if d := cmp.Diff(want, got.Events[:4]); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// Nobody asks for the trace of a trial that has failed.
func TestNoTraceOfAFailure(t *testing.T) {
	b, c := traced(t, func(context.Context, bench.Task, bench.Meter) error { return errors.New("it broke") })
	c.events = []bench.TraceEvent{{Name: "e"}}
	if _, err := run.Run(t.Context(), b.options); err != nil {
		t.Fatal(err)
	}
	if s := b.writer.samples[0]; s.Outcome != bench.Failed || s.Trace != nil ||
		slices.Contains(b.journal.lines, "ask for the trace") {
		t.Errorf("%s: trace %v", s.Outcome, s.Trace)
	}
}

// What counts system calls is found at the engine of a task, which can do what it could.
func TestCallCounterIsFound(t *testing.T) {
	for _, counts := range []bool{true, false} {
		var found, restarts bool
		b, _ := traced(t, func(_ context.Context, task bench.Task, m bench.Meter) error {
			var c bench.CallCounter
			if c, found = bench.As[bench.CallCounter](task.Engine); found && c.SystemCalls(7) != 7 {
				t.Error("it is another one")
			}
			_, restarts = bench.As[bench.Restarter](task.Engine)
			m.Record("work", 1)
			return nil
		})
		if !counts {
			b.options.Instruments = b.options.Instruments[1:]
			b.options.Header.Metrics = slices.Delete(b.options.Header.Metrics, 2, 3)
		}
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if found != counts || !restarts {
			t.Errorf("counts %v: found %v, restarts %v", counts, found, restarts)
		}
	}
}

// Traced trials follow the others of their block. They keep their stages and no value, and what fails only
// while it is traced gives up no cell.
func TestTracedTrials(t *testing.T) {
	b := newHarness(t, bench.Plan{MaxBlocks: 5, Timeline: 1}, func(_ context.Context, task bench.Task, m bench.Meter) error {
		span, err := m.Step("work", func() error { return nil })
		m.Record("work", 1)
		m.Series("work", []float64{1})
		stages := []bench.Stage{{Name: "work", Span: span}, {Name: "inside", Span: bench.Span{Begin: span.End, End: span.End + 1}, Inside: true}}
		m.Stages("work", stages)
		if task.Traced && task.Engine.Name() == "b" {
			return errors.New("it cannot be traced")
		}
		return err
	}, "a", "b")
	if _, err := run.Run(t.Context(), b.options); err != nil {
		t.Fatal(err)
	}
	if n := len(b.writer.samples); n != 20 {
		t.Fatalf("%d samples, want 20", n)
	}
	for i, s := range b.writer.samples {
		_, has := s.Value(0)
		traced, fails := i%4 >= 2, s.Trial.Cell == 1
		switch {
		case s.Trial.Block != i/4 || s.Trial.Traced != traced || slices.Contains(s.Notes, bench.NoteTraced) != traced:
			t.Errorf("sample %d is of %+v, notes %v", i, s.Trial, s.Notes)
		case !traced && (s.Outcome != bench.OK || !has || len(s.Series) != 1 || s.Trace != nil):
			t.Errorf("timed trial %d: %+v", i, s)
		case traced && fails && s.Outcome != bench.Failed:
			t.Errorf("trial %d, which fails: %+v", i, s)
		case traced && !fails && (s.Outcome != bench.OK || has || s.Series != nil || len(s.Trace.Events) != 2):
			t.Errorf("traced trial %d: %+v", i, s)
		}
	}
}
