package enginetest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// Overhead compares a driver with a bare loop over the same calls of its
// engine. Each takes one container through its life, and returns how long the
// calls took (see Time). One iteration is one container each way, in
// alternating order, the driver's first; "driver-ms" and "bare-ms" are the
// medians, "ratio" is the first over the second, and "ratio-low" and "ratio-high"
// are the 95 % interval of the ratio of a pair (signed ranks of its logarithm),
// from six pairs on.
//
// Go's scheduler is kept to one processor, as internal/run does in trials and
// says why, so that what is compared is what a run measures.
func Overhead(b *testing.B, driver, bare func(b *testing.B) time.Duration) {
	b.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var driven, plain []time.Duration
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 {
			driven = append(driven, driver(b))
			plain = append(plain, bare(b))
		} else {
			plain = append(plain, bare(b))
			driven = append(driven, driver(b))
		}
	}
	b.ReportMetric(median(driven)*1e3, "driver-ms")
	b.ReportMetric(median(plain)*1e3, "bare-ms")
	b.ReportMetric(median(driven)/median(plain), "ratio")
	logs := make([]float64, len(driven))
	for i := range driven {
		logs[i] = math.Log(driven[i].Seconds() / plain[i].Seconds())
	}
	if pairs := stat.SignedRank(logs, 0.95); pairs.OK {
		b.ReportMetric(math.Exp(pairs.Interval.Low), "ratio-low")
		b.ReportMetric(math.Exp(pairs.Interval.High), "ratio-high")
	}
}

// DriverSide is the driver's side of Overhead if the bare loop waits with a call of the engine: Create,
// Start, Wait and Remove.
func DriverSide(e bench.Engine, spec bench.Spec) func(b *testing.B) time.Duration {
	return func(b *testing.B) time.Duration {
		b.Helper()
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		noError(b, e.Prepare(ctx, spec))
		runtime.GC()
		var c bench.Container
		took := Time(b, func() (err error) { c, err = e.Create(ctx, spec); return err })
		took += Time(b, func() error { return c.Start(ctx) })
		took += Time(b, func() error { _, err := c.Wait(ctx); return err })
		return took + Time(b, func() error { return c.Remove(ctx) })
	}
}

// Time returns how long op takes. It ends the benchmark if op fails.
func Time(b *testing.B, op func() error) time.Duration {
	b.Helper()
	began := time.Now()
	err := op()
	took := time.Since(began)
	noError(b, err)
	return took
}

// median returns the median in seconds.
func median(x []time.Duration) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[len(x)/2] + x[(len(x)-1)/2]).Seconds() / 2
}

// Printed starts a container and checks its output. If output is lost, Wait must fail, and a second
// Wait must return the same.
func Printed(t *testing.T, c bench.Container, stdout, stderr string, whole bool) {
	t.Helper()
	var out, errOut bytes.Buffer
	noError(t, errors.Join(c.Attach(t.Context(), &out, &errOut), c.Start(t.Context())))
	for range 2 {
		if exit, err := c.Wait(t.Context()); (err == nil) != whole || exit != (bench.Exit{}) {
			t.Errorf("Wait = %v, %v; want success %v", exit, err, whole)
		}
	}
	if out.String() != stdout || errOut.String() != stderr {
		t.Errorf("stdout %q, stderr %q; want %q and %q", out.String(), errOut.String(), stdout, stderr)
	}
}
