package experiment_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
)

// parted is a workload with parts a, b and c, of which the option parts has some trials measure.
type parted struct{ workload }

func (parted) Measures(params map[string]string, metric string) bool {
	part, _, isPart := strings.Cut(metric, ".")
	return !isPart || strings.Contains(params["parts"], part)
}

func knownParted() experiment.Known {
	k := known()
	metrics := []bench.Metric{{Name: "total", Role: bench.Detail}}
	for _, part := range []string{"a", "b", "c"} {
		metrics = append(metrics, bench.Metric{Name: part + ".rate", Role: bench.Primary},
			bench.Metric{Name: part + ".time", Role: bench.Detail})
	}
	k.Workloads = append(k.Workloads, parted{workload{
		name: "parted", metrics: metrics, params: []bench.Param{{Name: "parts", Default: "a,b"}},
	}})
	return k
}

// What decides is what is named, as far as the parts have it, and else what the workload has for them.
func TestPrimaryOfParts(t *testing.T) {
	const all = "primary: [a.rate, b.time]\n"
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"all parts":        {all, []string{"a.rate", "b.time"}},
		"some parts":       {all + "params: {parts: [a, c]}\n", []string{"a.rate"}},
		"a part of none":   {all + "params: {parts: [c]}\n", []string{"c.rate"}},
		"nothing is named": {"params: {parts: [a]}\n", []string{"a.rate"}},
		"of no part":       {"primary: [total]\nparams: {parts: [a]}\n", []string{"total"}},
		"in some conditions": {
			all + "conditions: {parts: [{name: x, params: {parts: a}}, {name: y, params: {parts: b}}]}\n",
			[]string{"a.rate", "b.time"},
		},
	} {
		p, err := planWith(knownParted(), "x.yaml", []byte("workload: parted\nfactors: {engine: [native, runc]}\n"+tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, p.Restrict); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whoever names a metric that no cell measures is told.
func TestPrimaryOfNoPart(t *testing.T) {
	e, err := experiment.Parse("x.yaml", []byte("workload: parted\nfactors: {engine: [native]}\nparams: {parts: [c]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Override(experiment.Overrides{Primary: []string{"a.rate"}}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Plan(knownParted(), 7)
	if err == nil || !strings.Contains(err.Error(), `--primary: no cell measures metric "a.rate"`) {
		t.Errorf("error %v", err)
	}
}
