package workloadtest

import (
	"context"
	"math"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// A Meter does what it is told at once, and keeps what is recorded. What it does
// not implement here panics.
type Meter struct {
	bench.Meter
	Values map[string]float64 // by metric
	Notes  []string
	Got    bench.Applied         // the last
	Calls  func(pid int) float64 // counts system calls; nil does not

	t testing.TB
}

// NewMeter returns a Meter whose clean-ups must not fail.
func NewMeter(t testing.TB) *Meter {
	return &Meter{Values: map[string]float64{}, t: t}
}

// Step implements bench.Meter.
func (m *Meter) Step(_ string, op func() error) (bench.Span, error) { return bench.Span{}, op() }

// Record implements bench.Meter.
func (m *Meter) Record(metric string, v float64) { m.Values[metric] = v }

// Distribution implements bench.Meter. It is not kept.
func (*Meter) Distribution(_, _ string) {}

// Note implements bench.Meter.
func (m *Meter) Note(code string) { m.Notes = append(m.Notes, code) }

// Applied implements bench.Meter.
func (m *Meter) Applied(want bench.Spec, got bench.Applied) error {
	m.Got = got
	return bench.Attest(want, got)
}

// SystemCalls implements bench.Meter.
func (m *Meter) SystemCalls(pid int) float64 {
	if m.Calls == nil {
		return math.NaN()
	}
	return m.Calls(pid)
}

// Cleanup implements bench.Meter.
func (m *Meter) Cleanup(op func(context.Context) error) {
	if err := op(context.WithoutCancel(m.t.Context())); err != nil {
		m.t.Errorf("clean-up: %v", err)
	}
}
