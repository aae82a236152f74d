package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
)

func TestPrograms(t *testing.T) {
	cell := func(names ...string) bench.Cell {
		c := bench.Cell{Params: map[string]string{"time": "1s", "toolbox": "x"}}
		for i := 0; i < len(names); i += 2 {
			c.Params[names[i]] = names[i+1]
		}
		return c
	}
	for name, test := range map[string]struct {
		cells []bench.Cell
		want  []string
	}{
		"nothing":      {nil, []string{}},
		"built in":     {[]bench.Cell{cell("tool", "")}, []string{}},
		"one":          {[]bench.Cell{cell("tool", "fio"), cell("tool", "fio")}, []string{"fio"}},
		"of parts":     {[]bench.Cell{cell("disk.tool", "fio", "cpu.tool", "sysbench", "net.tool", "")}, []string{"cpu sysbench", "disk fio"}},
		"not in every": {[]bench.Cell{cell("tool", "fio"), cell("tool", "")}, []string{}},
	} {
		if diff := cmp.Diff(test.want, programs(test.cells)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := title(&Run{Experiment: "cpu", Programs: []string{"sysbench"}}); got != "cpu by sysbench" {
		t.Errorf("title %q", got)
	}
}

// A run in which nothing failed, since nothing could be done, does not say that it did.
func TestStopped(t *testing.T) {
	for name, test := range map[string]struct {
		trials Trials
		want   string
	}{
		"failed":           {Trials{Failed: 3}, "stopped: every cell failed"},
		"warm-ups failed":  {Trials{Warmup: 3}, "stopped: every cell failed"},
		"one failed":       {Trials{TimedOut: 3, Unsupported: 3}, "stopped: every cell failed"},
		"none supported":   {Trials{Unsupported: 6}, "stopped: no cell could run"},
		"without fixtures": {Trials{Skipped: 6}, "stopped: no cell could run"},
	} {
		parts := runParts(&Run{Stopped: string(bench.StopAllFailed), Trials: test.trials}, &bench.Header{})
		if got := parts[len(parts)-1]; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// What was said of one metric in other words, or of one that does not decide, is no
// reason to keep silent how precise a run became.
func TestPrecise(t *testing.T) {
	metrics := []bench.Metric{
		{Name: "total", Role: bench.Primary}, {Name: "start", Role: bench.Primary}, {Name: "exit", Role: bench.Detail},
	}
	for want, margins := range map[string][][]bench.Margin{
		"stopped: ±3 % reached": {nil, {{Metric: "total", Smallest: 0.06, Precision: 0.03}}, {{
			Metric:    "exit",
			Precision: 0.5,
		}}},
		"stopped: every metric precise enough": {{{Metric: "total", Precision: 0.05}}},
	} {
		for _, m := range margins {
			h := &bench.Header{Plan: bench.Plan{Precision: 0.03, Margins: m}, Metrics: metrics}
			parts := runParts(&Run{Stopped: string(bench.StopPrecision)}, h)
			if got := parts[len(parts)-1]; got != want {
				t.Errorf("%+v: %q, want %q", m, got, want)
			}
		}
	}
}
