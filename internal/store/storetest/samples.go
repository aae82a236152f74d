package storetest

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

func testInvalidSamples(t *testing.T, s *suite) {
	run := Example("a", 1)
	w := s.create(run.Header)
	defer s.close(w)
	for name, spoil := range map[string]func(*bench.Sample){
		"cell out of range":  func(s *bench.Sample) { s.Trial.Cell = 2 },
		"unknown outcome":    func(s *bench.Sample) { s.Outcome = "fine" },
		"too few values":     func(s *bench.Sample) { s.Values = s.Values[:1] },
		"a failure's values": func(s *bench.Sample) { s.Outcome = bench.Failed },
		"a failure's series": func(s *bench.Sample) { s.Outcome, s.Values, s.Series = bench.Failed, nil, series("a", 1) },
		"series of nothing":  func(s *bench.Sample) { s.Series = series("", 1) },
		"a failure's distribution": func(s *bench.Sample) {
			s.Outcome, s.Values, s.Distributions = bench.Failed, nil, []bench.Distribution{{Metric: "a", HDR: "AA=="}}
		},
		"distribution of nothing":     func(s *bench.Sample) { s.Distributions = []bench.Distribution{{HDR: "AA=="}} },
		"distribution without counts": func(s *bench.Sample) { s.Distributions = []bench.Distribution{{Metric: "a"}} },
		"a failure's trace":           func(s *bench.Sample) { s.Outcome, s.Values, s.Trace = bench.Failed, nil, trace(1) },
		"trace of nothing":            func(s *bench.Sample) { s.Trace = trace(0) },
		"event without a name":        func(s *bench.Sample) { s.Trace = trace(1); s.Trace.Events[0].Name = "" },
		"event before the beginning":  func(s *bench.Sample) { s.Trace = trace(1); s.Trace.Events[0].At = -1 },
		"events out of order":         func(s *bench.Sample) { s.Trace = trace(2); s.Trace.Events[0].At = 2 },
		"fewer than none left out":    func(s *bench.Sample) { s.Trace = trace(1); s.Trace.LeftOut = -1 },
		"too many events":             func(s *bench.Sample) { s.Trace = trace(bench.MaxTraceEvents + 1) },
		"trace too long": func(s *bench.Sample) {
			s.Trace = trace(1)
			s.Trace.Events[0].Source = strings.Repeat("x", bench.MaxTraceBytes)
		},
		"series too long": func(s *bench.Sample) { s.Series = series("a", bench.MaxSeriesValues+1) },
	} {
		sample := Example("a", 1).Samples[0]
		spoil(&sample)
		if err := w.Append(s.ctx, sample); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := w.Finish(s.ctx, bench.End{Time: run.Header.Began, Reason: "tired"}); err == nil {
		t.Error("a run ends for an unknown reason")
	}
	s.wantRun(&bench.Run{Header: run.Header})
}

func testBits(t *testing.T, s *suite) {
	values := []float64{
		0, math.Copysign(0, -1), 1.0 / 3, 5e-324, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
		math.Float64frombits(0x7ff8_0000_dead_beef),
	}
	h := Example("a", 1).Header
	h.Schedule = nil
	w := s.create(h)
	for i, v := range values {
		s.must(w.Append(s.ctx, bench.Sample{Trial: bench.Trial{Seq: i}, Outcome: bench.OK, Values: []float64{v, -v}}))
	}
	s.must(w.Close())
	run, err := s.Open(s.ctx, "a")
	s.must(err)
	for i, v := range values {
		for j, want := range []float64{v, -v} {
			if got := run.Samples[i].Values[j]; math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%v (%#x) came back as %v (%#x)", want, math.Float64bits(want), got, math.Float64bits(got))
			}
		}
	}
}

// series is one series of n ones.
func series(metric string, n int) []bench.Series {
	return []bench.Series{{Metric: metric, Values: slices.Repeat([]float64{1}, n)}}
}

// Series come back in their order, as many as a sample may have.
func testSeries(_ *testing.T, s *suite) {
	want := &bench.Run{Header: Example("a", 1).Header}
	want.Header.Schedule = nil
	most := Example("a", 1).Samples[0]
	most.Series = series("z", bench.MaxSeriesValues-3)
	most.Series = append(most.Series,
		bench.Series{Metric: "a", Values: []float64{math.MaxFloat64, math.Copysign(0, -1), 5e-324}})
	want.Samples = append(want.Samples, most)
	s.must(s.create(want.Header, want.Samples...).Close())
	s.wantRun(want)
	run, err := s.Open(s.ctx, "a")
	s.must(err)
	for i, v := range most.Series[1].Values {
		if got := run.Samples[0].Series[1].Values[i]; math.Float64bits(got) != math.Float64bits(v) {
			s.t.Errorf("%v came back as %v", v, got)
		}
	}
}

// trace is one of n events, a nanosecond apart.
func trace(n int) *bench.Trace {
	t := &bench.Trace{}
	for i := range n {
		t.Events = append(t.Events, bench.TraceEvent{At: time.Duration(i), Name: "e"})
	}
	return t
}

// A trace comes back as it was, also one with all that it may have, and one of which all
// was left out.
func testTrace(_ *testing.T, s *suite) {
	want := &bench.Run{Header: Example("a", 1).Header}
	want.Header.Schedule = nil
	most := trace(bench.MaxTraceEvents)
	most.LeftOut = math.MaxInt32
	label := bench.Label{Key: "arguments"}
	most.Events[7].Attributes = []bench.Label{label}
	room := bench.MaxTraceBytes
	for _, e := range most.Events {
		room -= e.Size()
	}
	most.Events[7].Attributes[0].Value = strings.Repeat("\u202e", room/len("\u202e"))
	for i, t := range []*bench.Trace{most, {LeftOut: 1}, nil} {
		sample := Example("a", 1).Samples[0]
		sample.Trial.Seq, sample.Trace = i, t
		want.Samples = append(want.Samples, sample)
	}
	s.must(s.create(want.Header, want.Samples...).Close())
	s.wantRun(want)
}

func testOutcomes(_ *testing.T, s *suite) {
	want := &bench.Run{Header: Example("a", 8).Header}
	for i, o := range []bench.Outcome{
		bench.OK, bench.Failed, bench.TimedOut, bench.Canceled, bench.Skipped, bench.Unsupported,
	} {
		sample := bench.Sample{Trial: bench.Trial{Seq: i}, Outcome: o, Reason: string(o)}
		if o == bench.OK {
			sample.Values = []float64{1, 2}
		}
		want.Samples = append(want.Samples, sample)
	}
	s.must(s.create(want.Header, want.Samples...).Close())
	s.wantRun(want)
}

func testStrings(_ *testing.T, s *suite) {
	want := &bench.Run{Header: Example("a", 1).Header}
	want.Header.Schedule = nil
	hostile := []string{
		"日本 🐳 é", "\x00\x01\x1b[31m\a\x7f", "a\nb\r\n", `'; DROP TABLE runs; --`, `"\`, "\u2028\u202e",
		strings.Repeat("x", 1<<20), "<&>",
	}
	for i, text := range hostile {
		want.Header.Warnings = append(want.Header.Warnings, bench.Warning{Text: text})
		want.Samples = append(want.Samples, bench.Sample{
			Trial: bench.Trial{Seq: i}, Outcome: bench.Failed, Operation: text, Reason: text, Notes: []string{text, text},
			Applied: &bench.Applied{Argv: []string{text}},
		})
	}
	s.must(s.create(want.Header, want.Samples...).Close())
	s.wantRun(want)
}

// The caller may use the slices of a sample again.
func testRetained(_ *testing.T, s *suite) {
	want := Example("a", 3)
	w := s.create(want.Header)
	values, again, events := make([]float64, 2), series("one", 1), trace(1)
	for i, sample := range Example("a", 3).Samples {
		copy(values, sample.Values)
		again[0].Values[0] = float64(i)
		events.Events[0].At = time.Duration(i)
		sample.Values, sample.Series, sample.Trace = values, again, events
		want.Samples[i].Series = []bench.Series{{Metric: "one", Values: []float64{float64(i)}}}
		want.Samples[i].Trace = &bench.Trace{Events: []bench.TraceEvent{{At: time.Duration(i), Name: "e"}}}
		s.must(w.Append(s.ctx, sample))
	}
	s.must(w.Close())
	s.wantRun(&bench.Run{Header: want.Header, Samples: want.Samples})
}

func testLarge(_ *testing.T, s *suite) {
	want := Example("a", 3000)
	s.must(record.Copy(s.ctx, s, want))
	s.wantRun(want)
}
