package run

import (
	"testing"
	"time"

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
