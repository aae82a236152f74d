package enginetest_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// The two take turns in going first, on one processor; what is timed of the
// driver are the calls of one life.
func TestOverhead(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, overhead)
	if p := runtime.GOMAXPROCS(0); p != 2 {
		t.Errorf("%d processors after the benchmark, want 2 as before", p)
	}
}

func overhead(t *testing.T) {
	drive := enginetest.DriverSide(enginetest.NewFake(enginetest.FakeConfig{Takes: map[enginetest.Op]time.Duration{
		enginetest.OpPrepare: 100 * time.Millisecond, enginetest.OpCreate: 3 * time.Millisecond,
		enginetest.OpStart: 5 * time.Millisecond,
		enginetest.OpRun:   7 * time.Millisecond, enginetest.OpRemove: 11 * time.Millisecond,
	}}), bench.Spec{Argv: []string{agent.Path, "exit", "0"}})
	var order strings.Builder
	driver := func(b *testing.B) time.Duration {
		order.WriteString("d")
		return drive(b)
	}
	var takes time.Duration
	bare := func(b *testing.B) time.Duration {
		order.WriteString("b")
		if p := runtime.GOMAXPROCS(0); p != 1 {
			t.Errorf("%d processors in the benchmark, want 1", p)
		}
		takes += time.Millisecond // more each time: 1, 2, 3 …
		return enginetest.Time(b, func() error { time.Sleep(takes); return nil })
	}
	r := testing.Benchmark(func(b *testing.B) { enginetest.Overhead(b, driver, bare) })
	if want := strings.Repeat("dbbd", r.N)[:2*r.N]; order.String() != want {
		t.Errorf("order = %s, want %s", order.String(), want)
	}
	middle := float64(r.N+1) / 2
	want := map[string]float64{"driver-ms": 26, "bare-ms": middle, "ratio": 26 / middle}
	low, high := r.Extra["ratio-low"], r.Extra["ratio-high"]
	if most, least := 26.0, 26/float64(r.N); r.N > 50 && !(least < low && low < 26/middle && 26/middle < high && high < most) {
		t.Errorf("the ratio is %v to %v, after %d pairs of %v to %v", low, high, r.N, least, most)
	}
	delete(r.Extra, "ratio-low")
	delete(r.Extra, "ratio-high")
	if diff := cmp.Diff(want, r.Extra, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
