package workloadtest

import (
	"context"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// A Meter runs every step at once and keeps what is recorded. It has no clock: Now
// panics.
type Meter struct {
	bench.Clock
	bench.Discard
	Values map[string]float64 // by metric
	Notes  []string
	Got    bench.Applied // the last one

	t testing.TB
}

// NewMeter returns a Meter whose clean-ups must not fail.
func NewMeter(t testing.TB) *Meter {
	return &Meter{Values: map[string]float64{}, t: t}
}

// Step implements bench.Clock.
func (m *Meter) Step(_ string, op func() error) (bench.Span, error) { return bench.Span{}, op() }

// Cleanup implements bench.Clock.
func (m *Meter) Cleanup(op func(context.Context) error) {
	if err := op(context.WithoutCancel(m.t.Context())); err != nil {
		m.t.Errorf("clean-up: %v", err)
	}
}

// Record implements bench.Recorder.
func (m *Meter) Record(metric string, v float64) { m.Values[metric] = v }

// Note implements bench.Recorder.
func (m *Meter) Note(code string) { m.Notes = append(m.Notes, code) }

// Applied implements bench.Recorder.
func (m *Meter) Applied(want bench.Spec, got bench.Applied) error {
	m.Got = got
	return bench.Attest(want, got)
}
