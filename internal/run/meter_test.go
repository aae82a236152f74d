package run

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

func testMeter(tb testing.TB) *meter {
	m := newMeter(tb.Context(), Monotonic(), time.Minute, []bench.Metric{{Name: "work", Unit: "s"}})
	tb.Cleanup(m.stop)
	return m
}

// The tool must not be in its own numbers: a collection inside a trial would be.
func TestStepAllocatesNothing(t *testing.T) {
	m := testMeter(t)
	op := func() error { return nil }
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Step("work", op) }); n != 0 {
		t.Errorf("Step allocates %v times, want 0", n)
	}
}

// Marks made inside containers are compared with this clock: it must be the
// kernel's CLOCK_MONOTONIC, not one that began with this process.
func TestMonotonicIsTheKernelsClock(t *testing.T) {
	clock := Monotonic()
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
		t.Fatal(err)
	}
	now := clock()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
		t.Fatal(err)
	}
	const agreement = time.Millisecond // far wider than any calibration, far tighter than another origin
	if lo, hi := time.Duration(before.Nano())-agreement, time.Duration(after.Nano())+agreement; now < lo || now > hi {
		t.Errorf("clock says %v, want between %v and %v", now, lo, hi)
	}
}

func BenchmarkNullOperation(b *testing.B) {
	m := testMeter(b)
	op := func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		_, _ = m.Step("work", op)
	}
}

func TestSeries(t *testing.T) {
	const most = bench.MaxSeriesValues
	ones := slices.Repeat([]float64{1}, most)
	for _, tt := range []struct {
		name   string
		report func(m *meter)
		want   []bench.Series
		note   string
		reason string
	}{
		{"two", func(m *meter) {
			m.Series("b", ones[:2])
			m.Series("a", ones[:1])
		}, []bench.Series{{Metric: "b", Values: ones[:2]}, {Metric: "a", Values: ones[:1]}}, "", ""},
		{"of no values", func(m *meter) { m.Series("a", nil) }, nil, "", ""},
		{"as long as can be", func(m *meter) { m.Series("a", ones) }, []bench.Series{{Metric: "a", Values: ones}}, "", ""},
		{
			"those that fit", func(m *meter) {
				m.Series("a", ones[:2])
				m.Series("b", ones)
				m.Series("c", ones)
				m.Series("d", ones[2:])
			},
			[]bench.Series{{Metric: "a", Values: ones[:2]}, {Metric: "d", Values: ones[2:]}},
			bench.NoteSeriesLeftOut, "",
		},
		{"twice", func(m *meter) { m.Series("a", ones[:1]); m.Series("a", ones[:1]) }, nil, "", `the workload reports the series of "a" twice`},
		{"not finite", func(m *meter) { m.Series("a", []float64{1, math.Inf(1)}) }, nil, "", `the workload reports a value in the series of "a" that is not finite`},
	} {
		m := testMeter(t)
		tt.report(m)
		var s bench.Sample
		m.conclude(&s, t.Context(), nil)
		if d := cmp.Diff(tt.want, s.Series); d != "" || s.Reason != tt.reason || strings.Join(s.Notes, " ") != tt.note {
			t.Errorf("%s: reason %q, notes %q, series (-want +got):\n%.500s", tt.name, s.Reason, s.Notes, d)
		}
	}
}

// The workload may use its values again.
func TestSeriesAreNotRetained(t *testing.T) {
	m := testMeter(t)
	values := []float64{1}
	m.Series("a", values)
	values[0] = 2
	if m.series[0].Values[0] != 1 {
		t.Error("the meter has kept the workload's values")
	}
}

// A trial that failed has no values, of single operations neither.
func TestFailureHasNoSeries(t *testing.T) {
	m := testMeter(t)
	m.Series("a", []float64{1})
	var s bench.Sample
	if m.conclude(&s, t.Context(), errors.New("lost")); s.Series != nil || s.Outcome != bench.Failed {
		t.Errorf("%s with %v", s.Outcome, s.Series)
	}
}
