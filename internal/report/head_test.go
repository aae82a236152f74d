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
