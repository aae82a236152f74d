// Package storetest holds the conformance suite that every bench.Store passes,
// and a store in memory for tests of what uses one.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/record"
)

// Run checks every sentence of the contract of bench.Store. It calls open for
// an empty store of each test's own, and closes it.
func Run(t *testing.T, open func(t *testing.T) bench.Store) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"WhatWasAppendedIsRead", testRead},
		{"UnfinishedRunIsAPrefix", testPrefix},
		{"RunIsReadWhileItIsWritten", testReadWhileWriting},
		{"CreateTwice", testCreateTwice},
		{"CreateRefusesInvalidHeaders", testCreateInvalid},
		{"OpenMissing", testOpenMissing},
		{"ResumeGoesOn", testResume},
		{"ResumeMissing", testResumeMissing},
		{"ResumeFinished", testResumeFinished},
		{"ResumeAtTheWrongTrial", testResumeWrong},
		{"FinishedNeverChanges", testFinished},
		{"SeqGrowsByOne", testSeq},
		{"InvalidSamplesAreRefused", testInvalidSamples},
		{"TwoWritersOfOneRun", testTwoWriters},
		{"ValuesKeepEveryBit", testBits},
		{"EveryOutcome", testOutcomes},
		{"HostileStrings", testStrings},
		{"SeriesKeepEveryBit", testSeries},
		{"SamplesAreNotRetained", testRetained},
		{"LargeRun", testLarge},
		{"RunsNewestFirst", testRuns},
		{"RunsStopsWhenAsked", testRunsStop},
		{"StoreIsUsedInsideRuns", testNested},
		{"ConcurrentRuns", testConcurrent},
		{"EndedContext", testContext},
		{"ImportedRunIsTheSame", testImport},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{Store: open(t), t: t, ctx: t.Context()}
			defer s.shut(s)
			tt.test(t, s)
		})
	}
}

// A suite is a store under test, with what every test needs.
type suite struct {
	bench.Store
	t   *testing.T
	ctx context.Context
}

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) shut(c io.Closer) {
	s.t.Helper()
	if err := c.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
}

func (s *suite) wantIs(what string, err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Errorf("%s: error %v, want one that is %v", what, err, want)
	}
}

// create begins a run and appends samples; the writer is closed by the test's end.
func (s *suite) create(h bench.Header, samples ...bench.Sample) bench.RunWriter {
	s.t.Helper()
	w, err := s.Create(s.ctx, h)
	s.must(err)
	for _, sample := range samples {
		s.must(w.Append(s.ctx, sample))
	}
	return w
}

// wantRun checks what the store has.
func (s *suite) wantRun(want *bench.Run) {
	s.t.Helper()
	got, err := s.Open(s.ctx, want.Header.ID)
	s.must(err)
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), whereFrom()); d != "" {
		s.t.Errorf("run %s (-want +got):\n%.4000s", want.Header.ID, d)
	}
}

// whereFrom lets runs be compared that differ only in that one was imported.
func whereFrom() cmp.Option { return cmpopts.IgnoreFields(bench.Header{}, "Imported") }

// Example returns a complete, resumed run with n samples, among them failed
// ones; the same for the same arguments.
func Example(id string, n int) *bench.Run {
	began := time.Date(2026, 11, 20, 9, 30, 0, 123_456_789, time.UTC)
	run := &bench.Run{
		Header: bench.Header{
			ID: id, Tool: "test", Began: began,
			Plan: bench.Plan{
				Name: "example", Workload: "lifecycle", Seed: math.MaxUint64, MinBlocks: 1, MaxBlocks: n/2 + 1,
				Cells: []bench.Cell{
					{Name: "runc", Engine: "runc", Baseline: true, Params: map[string]string{"size": "1"}},
					{Name: "crun", Engine: "crun", Spec: bench.Spec{Limits: bench.Limits{CPUs: 0.5}}},
				},
			},
			Metrics: []bench.Metric{
				{Name: "total", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio},
				{Name: "faults", Unit: "1", Better: bench.Neither, Role: bench.Counter, Scale: bench.Difference},
			},
			Engines: []bench.EngineInfo{{Name: "runc", Driver: "oci", Facts: []bench.Label{{Key: "cgroup", Value: "v2"}}}},
			Host:    bench.HostFacts{Hostname: "here", Memory: 1 << 40},
		},
		End: &bench.End{Time: began.Add(time.Hour), Reason: bench.StopBlocks, Overhead: bench.Overhead{CPU: 1}},
	}
	for i := range n {
		if i%2 == 0 {
			run.Header.Schedule = append(run.Header.Schedule, []int{i / 2 % 2, 1 - i/2%2})
		}
		run.Samples = append(run.Samples, exampleSample(began, i))
	}
	if n > 2 {
		run.Resumptions = []bench.Resumption{{Time: began.Add(time.Minute), Tool: "next", Seq: 2, Host: run.Header.Host}}
	}
	return run
}

func exampleSample(began time.Time, i int) bench.Sample {
	s := bench.Sample{
		Trial: bench.Trial{Seq: i, Block: i / 2, Cell: i % 2}, Began: began.Add(time.Duration(i) * time.Second),
		Elapsed: time.Duration(i) * time.Millisecond, Outcome: bench.OK, Values: []float64{1 / float64(i+1), math.NaN()},
		Applied: &bench.Applied{Runtime: "runc", Network: "none", Limits: bench.Limits{Pids: int64(i % 2)}},
	}
	switch i % 7 {
	case 3:
		s.Outcome, s.Operation, s.Reason, s.Values = bench.Failed, "total", "create: no such file", nil
	case 5:
		s.Notes = []string{bench.NoteHostClock}
	case 6:
		s.Series = []bench.Series{{Metric: "create", Values: []float64{3, 1 / float64(i), 2}}, {Metric: "日本", Values: []float64{0}}}
		s.Distributions = []bench.Distribution{{Metric: "rtt", HDR: "HISTFAAAAB542pNpmSzMwMBgyQABzFCaEUoz2X+AMIoBVqsFKQ=="}, {Metric: "日本", HDR: "AA=="}}
	}
	return s
}

func testRead(_ *testing.T, s *suite) {
	want := Example("a", 8)
	want.Resumptions = nil
	w := s.create(want.Header, want.Samples...)
	s.must(w.Finish(s.ctx, *want.End))
	s.must(w.Close())
	s.wantRun(want)
}

// A writer that is closed, or just forgotten, leaves a prefix.
func testPrefix(_ *testing.T, s *suite) {
	for n := range 4 {
		for _, closed := range []bool{true, false} {
			want := Example(fmt.Sprintf("run-%d-%v", n, closed), 8)
			want.Samples, want.Resumptions, want.End = want.Samples[:n:n], nil, nil
			if n == 0 {
				want.Samples = nil
			}
			w := s.create(want.Header, want.Samples...)
			if closed {
				s.must(w.Close())
			} else {
				defer s.shut(w)
			}
			s.wantRun(want)
		}
	}
}

func testReadWhileWriting(_ *testing.T, s *suite) {
	want := Example("a", 8)
	w := s.create(want.Header)
	defer s.shut(w)
	for i, sample := range want.Samples {
		s.must(w.Append(s.ctx, sample))
		s.wantRun(&bench.Run{Header: want.Header, Samples: want.Samples[:i+1]})
	}
}

func testCreateTwice(_ *testing.T, s *suite) {
	run := Example("a", 1)
	w := s.create(run.Header, run.Samples...)
	other := run.Header
	other.Tool = "other"
	_, err := s.Create(s.ctx, other)
	s.wantIs("Create of an unfinished run", err, fs.ErrExist)
	s.must(w.Finish(s.ctx, *run.End))
	s.must(w.Close())
	_, err = s.Create(s.ctx, other)
	s.wantIs("Create of a finished run", err, fs.ErrExist)
	s.wantRun(run)
}

func testCreateInvalid(t *testing.T, s *suite) {
	for name, spoil := range map[string]func(*bench.Header){
		"path for an ID": func(h *bench.Header) { h.ID = "../x" },
		"no cells":       func(h *bench.Header) { h.Plan.Cells = nil },
		"NaN":            func(h *bench.Header) { h.Plan.Precision = math.NaN() },
		"one name twice": func(h *bench.Header) { h.Metrics[1].Name = h.Metrics[0].Name },
	} {
		h := Example("a", 1).Header
		spoil(&h)
		if _, err := s.Create(s.ctx, h); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for r, err := range s.Runs(s.ctx) {
		t.Errorf("a refused run is listed: %v, %v", r, err)
	}
}

func testOpenMissing(_ *testing.T, s *suite) {
	for _, id := range []string{"missing", "", "' OR 1=1 --", "%", "a\x00b"} {
		_, err := s.Open(s.ctx, id)
		s.wantIs(fmt.Sprintf("Open(%q)", id), err, fs.ErrNotExist)
	}
}

func testResume(_ *testing.T, s *suite) {
	want := Example("a", 8)
	s.must(s.create(want.Header, want.Samples[:2]...).Close())
	w, err := s.Resume(s.ctx, "a", want.Resumptions[0])
	s.must(err)
	for _, sample := range want.Samples[2:] {
		s.must(w.Append(s.ctx, sample))
	}
	s.must(w.Close())
	last := want.Resumptions[0]
	last.Seq = len(want.Samples)
	want.Resumptions = append(want.Resumptions, last)
	w, err = s.Resume(s.ctx, "a", last)
	s.must(err)
	s.must(w.Finish(s.ctx, *want.End))
	s.must(w.Close())
	s.wantRun(want)
}

func testResumeMissing(_ *testing.T, s *suite) {
	_, err := s.Resume(s.ctx, "missing", Example("a", 3).Resumptions[0])
	s.wantIs("Resume", err, fs.ErrNotExist)
}

func testResumeFinished(_ *testing.T, s *suite) {
	run := Example("a", 2)
	w := s.create(run.Header, run.Samples...)
	s.must(w.Finish(s.ctx, *run.End))
	s.must(w.Close())
	_, err := s.Resume(s.ctx, "a", Example("a", 3).Resumptions[0])
	s.wantIs("Resume", err, bench.ErrFinished)
	s.wantRun(run)
}

// What the resumption was planned from is not what is stored: somebody else
// resumed the run in between.
func testResumeWrong(t *testing.T, s *suite) {
	run := Example("a", 8)
	s.must(s.create(run.Header, run.Samples[:4]...).Close())
	if _, err := s.Resume(s.ctx, "a", run.Resumptions[0]); err == nil {
		t.Error("a resumption at trial 2 is accepted after 4 trials")
	}
	run.Samples, run.Resumptions, run.End = run.Samples[:4], nil, nil
	s.wantRun(run)
}

func testFinished(_ *testing.T, s *suite) {
	run := Example("a", 4)
	next := run.Samples[2]
	run.Samples, run.Resumptions = run.Samples[:2], nil
	w := s.create(run.Header, run.Samples...)
	s.must(w.Finish(s.ctx, *run.End))
	s.wantIs("Append", w.Append(s.ctx, next), bench.ErrFinished)
	s.wantIs("Finish", w.Finish(s.ctx, bench.End{Time: run.End.Time, Reason: bench.StopBudget}), bench.ErrFinished)
	s.must(w.Close())
	s.wantRun(run)
}

func testSeq(t *testing.T, s *suite) {
	run := Example("a", 8)
	w := s.create(run.Header, run.Samples[:2]...)
	for _, wrong := range []int{0, 1, 3, 7} {
		if err := w.Append(s.ctx, run.Samples[wrong]); err == nil {
			t.Errorf("Append of trial %d after trial 1 succeeded", wrong)
		}
	}
	s.must(w.Append(s.ctx, run.Samples[2])) // what was refused did no harm
	s.must(w.Close())
	s.wantRun(&bench.Run{Header: run.Header, Samples: run.Samples[:3]})
}

func testInvalidSamples(t *testing.T, s *suite) {
	run := Example("a", 1)
	w := s.create(run.Header)
	defer s.shut(w)
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
		"series too long":             func(s *bench.Sample) { s.Series = series("a", bench.MaxSeriesValues+1) },
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

// Two processes that resume the same run do not mix their samples: the second
// to append or finish fails, and what the first appended is kept.
func testTwoWriters(t *testing.T, s *suite) {
	run := Example("a", 8)
	first := s.create(run.Header, run.Samples[:2]...)
	defer s.shut(first)
	second, err := s.Resume(s.ctx, "a", run.Resumptions[0])
	s.must(err)
	defer s.shut(second)
	s.must(first.Append(s.ctx, run.Samples[2]))
	if err := second.Append(s.ctx, run.Samples[2]); err == nil {
		t.Error("both writers appended trial 2")
	}
	if err := second.Finish(s.ctx, *run.End); err == nil {
		t.Error("the second writer finished a run of which it has not seen the end")
	}
	s.must(first.Append(s.ctx, run.Samples[3]))
	s.must(first.Finish(s.ctx, *run.End))
	s.wantIs("Append to what the other finished", second.Append(s.ctx, run.Samples[2]), bench.ErrFinished)
	run.Samples = run.Samples[:4]
	s.wantRun(run)
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
	most.Series = append(most.Series, bench.Series{Metric: "a", Values: []float64{math.MaxFloat64, math.Copysign(0, -1), 5e-324}})
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

func testOutcomes(_ *testing.T, s *suite) {
	want := &bench.Run{Header: Example("a", 8).Header}
	for i, o := range []bench.Outcome{bench.OK, bench.Failed, bench.TimedOut, bench.Canceled, bench.Skipped, bench.Unsupported} {
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
		"日本 🐳 é", "\x00\x01\x1b[31m\a\x7f", "a\nb\r\n", `'; DROP TABLE runs; --`, `"\`, "\u2028\u202e", strings.Repeat("x", 1<<20), "<&>",
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
	values, again := make([]float64, 2), series("one", 1)
	for i, sample := range Example("a", 3).Samples {
		copy(values, sample.Values)
		again[0].Values[0] = float64(i)
		sample.Values, sample.Series = values, again
		want.Samples[i].Series = []bench.Series{{Metric: "one", Values: []float64{float64(i)}}}
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

func testRuns(t *testing.T, s *suite) {
	began := Example("a", 0).Header.Began
	for _, r := range []struct {
		id     string
		age    time.Duration
		finish bool
	}{
		{"middle", time.Hour, true},
		{"newest", 0, false},
		{"oldest", 1000 * time.Hour, true},
		{"middle-by-a-nanosecond", time.Hour - 1, false},
		{"empty", 2 * time.Hour, false},
	} {
		run := Example(r.id, 11)
		run.Header.Began = began.Add(-r.age).In(time.FixedZone("far", -11*3600)) // a zone must not change the order
		if r.id == "empty" {
			run.Samples = nil
		}
		w := s.create(run.Header, run.Samples...)
		if r.finish {
			s.must(w.Finish(s.ctx, *run.End))
		}
		s.must(w.Close())
	}
	var got []string
	for r, err := range s.Runs(s.ctx) {
		s.must(err)
		got = append(got, fmt.Sprintf("%s %d %d %v", r.Header.ID, r.Samples, r.Failed, r.End != nil))
	}
	want := []string{"newest 11 2 false", "middle-by-a-nanosecond 11 2 false", "middle 11 2 true", "empty 0 0 false", "oldest 11 2 true"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ID, samples, failed, finished (-want +got):\n%s", d)
	}
}

func testRunsStop(t *testing.T, s *suite) {
	for _, id := range []string{"a", "b", "c"} {
		s.must(s.create(Example(id, 0).Header).Close())
	}
	n := 0
	for _, err := range s.Runs(s.ctx) {
		s.must(err)
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

func testNested(t *testing.T, s *suite) {
	for _, id := range []string{"a", "b", "c"} {
		s.must(s.create(Example(id, 1).Header).Close())
	}
	n := 0
	for r, err := range s.Runs(s.ctx) {
		s.must(err)
		s.wantRun(&bench.Run{Header: r.Header})
		w, err := s.Create(s.ctx, Example("new-"+r.Header.ID, 1).Header)
		s.must(err)
		s.must(w.Close())
		if n++; n > 6 {
			t.Fatal("runs that were created meanwhile are listed for ever")
		}
	}
}

func testConcurrent(t *testing.T, s *suite) {
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if err := record.Copy(s.ctx, s, Example(fmt.Sprintf("run-%d", i), 40)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for _, err := range s.Runs(s.ctx) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range writers {
		s.wantRun(Example(fmt.Sprintf("run-%d", i), 40))
	}
}

func testContext(t *testing.T, s *suite) {
	run := Example("a", 3)
	w := s.create(run.Header, run.Samples[0])
	defer s.shut(w)
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Create(gone, Example("b", 1).Header)
	s.wantIs("Create", err, context.Canceled)
	_, err = s.Resume(gone, "a", bench.Resumption{Time: run.Header.Began, Seq: 1})
	s.wantIs("Resume", err, context.Canceled)
	_, err = s.Open(gone, "a")
	s.wantIs("Open", err, context.Canceled)
	s.wantIs("Append", w.Append(gone, run.Samples[1]), context.Canceled)
	s.wantIs("Finish", w.Finish(gone, *run.End), context.Canceled)
	for _, err := range s.Runs(gone) {
		s.wantIs("Runs", err, context.Canceled)
	}
	s.must(w.Append(s.ctx, run.Samples[1])) // nothing happened
	s.wantRun(&bench.Run{Header: run.Header, Samples: run.Samples[:2]})
	if _, err := s.Open(s.ctx, "b"); err == nil {
		t.Error("Create with an ended context created a run")
	}
}

// A run that went over a pipe and into another store is the same there.
func testImport(t *testing.T, s *suite) {
	want := Example("a", 9)
	var pipe strings.Builder
	s.must(record.Write(&pipe, want))
	for run, err := range record.Read(strings.NewReader(pipe.String())) {
		s.must(err)
		s.must(record.Copy(s.ctx, s, run))
		s.wantIs("Copy twice", record.Copy(s.ctx, s, run), fs.ErrExist)
	}
	s.wantRun(want)
	if got, err := s.Open(s.ctx, want.Header.ID); err != nil || !got.Header.Imported {
		t.Errorf("an imported run does not say so (%v): it could be resumed, with whatever its file says", err)
	}
	incomplete := Example("b", 9)
	incomplete.End = nil
	s.must(record.Copy(s.ctx, s, incomplete))
	s.wantRun(incomplete)
	if t.Failed() {
		t.Log(pipe.String())
	}
}
