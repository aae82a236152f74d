package cli

import (
	"errors"
	"testing"

	"github.com/tare-bench/tare/internal/app"
)

// TestGatePrecision checks that a gate measures until its intervals are half as wide as its margin, or as precise as
// its user asks for.
func TestGatePrecision(t *testing.T) {
	for _, test := range []struct{ smallest, asked, margin, precision float64 }{
		{margin: 0.05, precision: 0.025},
		{smallest: 0.1, margin: 0.1, precision: 0.05},
		{smallest: 0.1, asked: 0.03, margin: 0.1, precision: 0.03},
	} {
		var p app.Planned
		p.Plan.Smallest, p.Plan.Precision = test.smallest, 0.01 // the experiment's
		if test.asked > 0 {
			p.Plan.Precision = test.asked
		}
		if err := prepareGate(&p, "", test.asked > 0); err != nil {
			t.Fatal(err)
		}
		if p.Plan.Smallest != test.margin || p.Plan.Precision != test.precision {
			t.Errorf("%+v: margin %v, precision %v", test, p.Plan.Smallest, p.Plan.Precision)
		}
	}
}

// TestGateExits checks that a gate's judgement decides on the exit code where trials failed as well.
func TestGateExits(t *testing.T) {
	for judged, want := range map[error]int{errWorse: exitWorse, errUndecided: exitUndecided, nil: exitTrials} {
		if code, _ := classify(errors.Join(judged, app.ErrTrialsFailed)); code != want {
			t.Errorf("%v and failed trials: exit code %d, want %d", judged, code, want)
		}
	}
}
