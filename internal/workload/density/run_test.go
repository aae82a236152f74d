package density_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/workload/density"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// measure runs one trial.
func measure(t *testing.T, e bench.Engine, params map[string]string) bench.Sample {
	t.Helper()
	return workloadtest.Trials{Workload: density.New(), Engine: e, Params: params, Op: 10 * time.Second}.Run(t)[0]
}

func value(t *testing.T, s bench.Sample, name string) float64 {
	t.Helper()
	for i, m := range density.New().Metrics() {
		if m.Name == name {
			v, _ := s.Value(i)
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// residents is a Fake whose containers are real processes, for they are looked
// for among those of this machine. One of them has ended by itself.
type residents struct {
	*enginetest.Fake
	t     *testing.T
	ends  int // which one, from 1; 0 for none
	count int
}

func (r *residents) Pid(context.Context, bench.Container) (int, error) {
	r.count++
	cmd := exec.Command("sleep", "1000")
	if r.count == r.ends {
		cmd = exec.Command("true")
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill() // one has ended
		_ = cmd.Wait()         // it was killed
	})
	for r.count == r.ends && proc.IsRunning("/", cmd.Process.Pid) { // it is not collected before the end
		time.Sleep(time.Millisecond)
	}
	return cmd.Process.Pid, nil
}

// However the filling ends, every container that was started is removed.
func TestFilling(t *testing.T) {
	full := enginetest.Fault{Op: enginetest.OpStart, Call: 5, Err: errors.New("fork: resource temporarily unavailable")}
	tests := []struct {
		name    string
		params  map[string]string
		faults  []enginetest.Fault
		ends    int
		outcome bench.Outcome
		count   float64
		says    string
	}{
		{"enough", map[string]string{"count": "7", "idle": "100ms"}, nil, 0, bench.OK, 7, ""},
		{
			"no more room fails the trial",
			map[string]string{"count": "7", "idle": "100ms"},
			[]enginetest.Fault{full},
			0,
			bench.Failed, 0, "container 5 of 7: start: fake: start 5: fork",
		},
		{"no more room is a result", map[string]string{"count": "7", "idle": "100ms", "until": "failure"}, []enginetest.Fault{full}, 0, bench.OK, 4, ""},
		{"not even one", map[string]string{"count": "7", "until": "failure"}, []enginetest.Fault{
			{Op: enginetest.OpCreate, Err: errors.New("no")},
		}, 0, bench.Failed, 0, "container 1 of 7: create: fake: create 1: no"},
		{
			"one that ends fails the trial",
			map[string]string{"count": "7", "idle": "100ms"},
			nil, 3, bench.Failed, 0,
			"container 3 of 7: ended by itself after start: ",
		},
		{"one that ends is a result", map[string]string{"count": "7", "idle": "100ms", "until": "failure"}, nil, 3, bench.OK, 2, ""},
		{"the only one ends", map[string]string{"count": "1", "until": "failure"}, nil, 1, bench.Failed, 0, "container 1 of 1: ended by itself after start: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := enginetest.NewFake(enginetest.FakeConfig{Faults: tt.faults})
			s := measure(t, &residents{Fake: f, t: t, ends: tt.ends}, tt.params)
			if s.Outcome != tt.outcome {
				t.Fatalf("%s: %s, want %s", s.Outcome, s.Reason, tt.outcome)
			}
			if got := value(t, s, density.Containers); tt.outcome == bench.OK && got != tt.count {
				t.Errorf("%v containers, want %v", got, tt.count)
			}
			if !strings.HasPrefix(s.Reason, tt.says) {
				t.Errorf("%q does not say %q", s.Reason, tt.says)
			}
			if f.Live() != 0 {
				t.Errorf("%d containers are left", f.Live())
			}
		})
	}
}

// An engine that does not tell its processes cannot be measured.
func TestNoOverseer(t *testing.T) {
	f := enginetest.NewFake(enginetest.FakeConfig{})
	s := measure(t, struct{ bench.Engine }{f}, nil)
	if s.Outcome != bench.Unsupported || len(f.Calls()) != 0 {
		t.Errorf("%s %q, and the engine was asked to %v", s.Outcome, s.Reason, f.Calls())
	}
}
