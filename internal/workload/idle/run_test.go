package idle_test

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/workload/idle"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

func short() map[string]string { return map[string]string{"time": "300ms", "calm": "0s"} }

// On a real engine every metric has a value that can be: parts are smaller than what they are parts of.
func TestDocker(t *testing.T) {
	e := localtest.Docker(t)
	s := workloadtest.Trials{Workload: idle.New(), Engine: e, Params: short()}.Run(t)[0]
	if s.Outcome != bench.OK {
		t.Fatalf("%s: %s", s.Outcome, s.Reason)
	}
	v := workloadtest.Values(idle.New(), s)
	for _, name := range []string{
		idle.Memory, idle.EngineMemory, idle.KernelMemory, idle.Processes, idle.SystemDisk, idle.EngineDisk,
	} {
		if !(v[name] > 0) {
			t.Errorf("%s = %v, want more than nothing", name, v[name])
		}
	}
	for part, whole := range map[string]string{
		idle.EngineMemory: idle.Memory, idle.KernelMemory: idle.Memory, idle.ImagesDisk: idle.EngineDisk,
	} {
		if v[part] > v[whole]*1.1 {
			t.Errorf("%s = %v is more than %s = %v", part, v[part], whole, v[whole])
		}
	}
	for _, name := range []string{idle.Wakeups, idle.CPU, idle.EngineWakeups, idle.EngineCPU} {
		if _, ok := v[name]; !ok {
			t.Errorf("%s has no value", name)
		}
	}
}

// A reporter is a Fake that tells of daemons and disks, or fails to.
type reporter struct {
	*enginetest.Fake
	daemons, disk error
}

func (r reporter) Daemons(context.Context) ([]int, error) { return []int{os.Getppid()}, r.daemons }

func (r reporter) Pid(context.Context, bench.Container) (int, error) { return 0, bench.ErrUnsupported }

func (r reporter) Disk(context.Context) (bench.EngineDisk, error) {
	return bench.EngineDisk{Dirs: []string{"/nowhere"}, Images: -1}, r.disk
}

// What an engine does not tell is missing; what fails is a failure. No container is made.
func TestWhatAnEngineTells(t *testing.T) {
	down := errors.New("the daemon is down")
	tests := []struct {
		name      string
		r         reporter
		outcome   bench.Outcome
		says      string
		has, lack []string
	}{
		{
			"all",
			reporter{},
			bench.OK, "",
			[]string{idle.EngineMemory, idle.EngineCPU, idle.EngineDisk},
			[]string{idle.ImagesDisk},
		},
		{
			"nothing",
			reporter{daemons: bench.ErrUnsupported, disk: bench.ErrUnsupported},
			bench.OK, "",
			[]string{idle.Memory, idle.Processes},
			[]string{idle.EngineMemory, idle.EngineCPU, idle.EngineDisk, idle.SystemDisk},
		},
		{"no daemon", reporter{daemons: down}, bench.Failed, "the daemon is down", nil, nil},
		{"no disk", reporter{disk: down}, bench.Failed, "the daemon is down", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Fake = enginetest.NewFake(enginetest.FakeConfig{})
			s := workloadtest.Trials{
				Workload: idle.New(), Engine: tt.r, Params: map[string]string{"time": "100ms", "calm": "0s"},
			}.Run(t)[0]
			if s.Outcome != tt.outcome || !strings.Contains(s.Reason, tt.says) {
				t.Fatalf("%s: %s", s.Outcome, s.Reason)
			}
			v := workloadtest.Values(idle.New(), s)
			for _, name := range tt.has {
				if _, ok := v[name]; !ok {
					t.Errorf("%s has no value", name)
				}
			}
			for _, name := range tt.lack {
				if got, ok := v[name]; ok {
					t.Errorf("%s = %v, though nobody told it", name, got)
				}
			}
			if tt.r.Live() != 0 {
				t.Errorf("%d containers are left", tt.r.Live())
			}
		})
	}
}

// A trial that is cut short ends at once.
func TestCutShort(t *testing.T) {
	began := time.Now()
	s := workloadtest.Trials{
		Workload: idle.New(), Engine: enginetest.NewFake(enginetest.FakeConfig{}), Trial: 100 * time.Millisecond,
		Params: map[string]string{"time": "1h", "calm": "0s"},
	}.Run(t)[0]
	if s.Outcome != bench.TimedOut || time.Since(began) > 30*time.Second {
		t.Errorf("%s after %v: %s", s.Outcome, time.Since(began), s.Reason)
	}
}

// BenchmarkRepeats watches the machine in two rounds of five trials each, and tells by how many percent the
// medians of the rounds differ: the largest difference of all rounds. On a machine that does something else
// beside, it shows that.
func BenchmarkRepeats(b *testing.B) {
	e := localtest.Docker(b)
	worst := map[string]float64{}
	round := func() map[string]float64 {
		values := map[string][]float64{}
		for _, s := range (workloadtest.Trials{
			Workload: idle.New(), Engine: e, Params: map[string]string{"time": "1s", "calm": "200ms"}, N: 5,
		}).Run(b) {
			if s.Outcome != bench.OK {
				b.Fatalf("%s: %s", s.Outcome, s.Reason)
			}
			for name, v := range workloadtest.Values(idle.New(), s) {
				values[name] = append(values[name], v)
			}
		}
		medians := map[string]float64{}
		for name, all := range values {
			slices.Sort(all)
			medians[name] = all[len(all)/2]
		}
		return medians
	}
	for i := 0; b.Loop(); i++ {
		if i >= 3 {
			continue // three take long enough, however many are asked for
		}
		first, second := round(), round()
		for name := range first {
			worst[name] = max(worst[name], 100*math.Abs(second[name]/first[name]-1))
		}
	}
	for _, name := range []string{idle.Memory, idle.EngineMemory, idle.Processes, idle.Wakeups, idle.CPU} {
		b.ReportMetric(worst[name], name+"-%")
	}
}
