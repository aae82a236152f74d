package experiment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
)

const overridden = `
name: x
workload: burst
factors:
  engine: [native, docker]
  shape: [{name: small, cpus: 1}, {name: large, cpus: 2}]
conditions: {size: [64, 128]}
exclude: [{engine: docker, shape: small}]
baseline: {engine: native, shape: large}
labels: {ticket: X-1, owner: me}
`

func TestOverride(t *testing.T) {
	two, seed, no := 2, uint64(9), false
	for _, tt := range []struct {
		name string
		o    experiment.Overrides
		want string // of the plan
	}{
		{"nothing", experiment.Overrides{}, "native small, native large, docker large, control / native small, native large, docker large, control"},
		{
			"a factor",
			experiment.Overrides{
				Factors: []experiment.Levels{{Factor: "engine", Levels: []string{"runc", "native"}}}, Control: &no,
			},
			"runc small, runc large, native small, native large / runc small, runc large, native small, native large",
		},
		{
			"named levels keep what they set",
			experiment.Overrides{Factors: []experiment.Levels{{Factor: "shape", Levels: []string{"large"}}}, Control: &no},
			"native, docker / native, docker",
		},
		{
			"a condition stays one",
			experiment.Overrides{Factors: []experiment.Levels{{Factor: "size", Levels: []string{"1"}}}, Control: &no},
			"native small, native large, docker large",
		},
		{
			"a new factor",
			experiment.Overrides{Factors: []experiment.Levels{
				{Factor: "network", Levels: []string{"none", "host"}}, {Factor: "size", Levels: []string{"1"}},
			}, Control: &no, Baseline: "native large"},
			"native small, native large, docker large none, docker large host",
		},
		{
			"an option stops varying",
			experiment.Overrides{Params: []bench.Label{{Key: "size", Value: "7"}}, Control: &no},
			"native small, native large, docker large",
		},
		{
			"an engine of its own",
			experiment.Overrides{
				Instances: []experiment.Instance{{Name: "new", Driver: "docker", Options: map[string]string{"host": "unix:///x"}}},
				Factors: []experiment.Levels{
					{Factor: "engine", Levels: []string{"new", "docker"}}, {Factor: "shape", Levels: []string{"small"}},
				},
				Baseline: "engine=new,size=64",
				Params:   []bench.Label{{Key: "size", Value: "7"}},
				Control:  &no,
			},
			"--baseline: no cell has the levels of the baseline in condition size=7",
		},
		{
			"the empty word of an option",
			experiment.Overrides{Factors: []experiment.Levels{
				{Factor: "engine", Levels: []string{"runc"}}, {Factor: "shape", Levels: []string{"small"}}, {Factor: "operations", Levels: []string{"", "9"}},
			}, Control: &no, Baseline: "operations=default"},
			"operations=default, operations=9 / operations=default, operations=9",
		},
		{"numbers", experiment.Overrides{Blocks: "3", Warmup: &two, Seed: &seed}, "native small, native large, " +
			"docker large, control / native small, native large, docker large, control"},
		{"bad blocks", experiment.Overrides{Blocks: "few"}, "--blocks: \"few\" is not a whole number from 1 to 100000"},
		{"bad timeout", experiment.Overrides{Trial: "5"}, "--trial-timeout: duration \"5\" has no unit"},
		{
			"bad level",
			experiment.Overrides{Factors: []experiment.Levels{{Factor: "network", Levels: []string{"hots"}}}},
			"--network: unknown network \"hots\"\n    = did you mean \"host\"?",
		},
		{"no levels", experiment.Overrides{Factors: []experiment.Levels{{Factor: "engine"}}}, "--engine: factor \"engine\" has no levels"},
		{"unknown engine", experiment.Overrides{Factors: []experiment.Levels{{Factor: "engine", Levels: []string{"dokcer"}}}}, "--engine: unknown engine \"dokcer\""},
		{"unknown option", experiment.Overrides{Params: []bench.Label{{Key: "siez", Value: "7"}}}, "--param siez: workload \"burst\" has no option \"siez\""},
		{"bad option", experiment.Overrides{Params: []bench.Label{{Key: "size", Value: "big"}}}, "--param size: \"big\" is not a number\n"},
		{"bad level of an option", experiment.Overrides{
			Factors: []experiment.Levels{{Factor: "clients", Levels: []string{"1", "few"}, Flag: "--factor clients"}},
		}, "--factor clients: \"few\" is not a number"},
		{
			"conflict",
			experiment.Overrides{Factors: []experiment.Levels{{Factor: "cpus", Levels: []string{"1"}}}},
			"--cpus: factors \"shape\" and \"cpus\" both set cpus",
		},
		{"unknown metric", experiment.Overrides{Smallest: []string{"3%", "raet=5%"}}, "--smallest: workload \"burst\" has " +
			"no metric \"raet\"\n    = did you mean \"rate\"?"},
		{"no metric", experiment.Overrides{Precision: []string{"=5%"}}, "--precision: workload \"burst\" has no metric \"\""},
		{"bad share of a metric", experiment.Overrides{Precision: []string{"rate=5"}}, "--precision: percentage \"5\" has no percent sign"},
		{"no share of a metric", experiment.Overrides{Smallest: []string{"rate="}}, "--smallest: percentage \"\" is not understood"},
		{"unknown driver", experiment.Overrides{Instances: []experiment.Instance{{Name: "new", Driver: "dokcer"}}}, "--engine new: unknown driver \"dokcer\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := overriddenPlan(t, tt.o)
			got := cellNames(p)
			if err != nil {
				got = err.Error()
			}
			if err == nil && got != tt.want || !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestOverrideFields checks that each flag reaches its field of the plan.
func TestOverrideFields(t *testing.T) {
	warmup, seed, control := 2, uint64(9), false
	p, err := overriddenPlan(t, experiment.Overrides{
		Params: []bench.Label{{Key: "clients", Value: "4"}}, Labels: []bench.Label{{Key: "ticket", Value: "X-2"}},
		Primary: []string{"rate"},
		Blocks:  "3..40", Precision: []string{"5%"}, Smallest: []string{"4%"}, Budget: "off", Washout: "1s",
		Trial: "9s", Operation: "8s",
		Warmup: &warmup, Seed: &seed, Control: &control, Syscalls: true, Timeline: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Cells[0].Params["clients"]; got != "4" {
		t.Errorf("clients = %q, want 4", got)
	}
	p.Factors, p.Cells = nil, nil
	want := bench.Plan{
		Name: "x", Workload: "burst", Seed: 9, Warmup: 2, MinBlocks: 9, MaxBlocks: 40, Precision: 0.05, Smallest: 0.04,
		TrialTime: 9 * time.Second, OpTime: 8 * time.Second, Washout: time.Second, Restrict: []string{"rate"}, Syscalls: true, Timeline: 5,
		Labels: []bench.Label{{Key: "owner", Value: "me"}, {Key: "ticket", Value: "X-2"}},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestOverrideMargins checks what flags leave of the file's margins.
func TestOverrideMargins(t *testing.T) {
	const text = "workload: lifecycle\nfactors: {engine: [native, runc]}\nsmallest: {first_instruction: 4%, total: 20%}\n"
	margin := func(metric string, smallest, precision float64) bench.Margin {
		return bench.Margin{Metric: metric, Smallest: smallest, Precision: precision}
	}
	first, total := margin("first_instruction", 0.04, 0.02), margin("total", 0.2, 0.1)
	for _, tt := range []struct {
		name                string
		more                string // of the file
		smallest, precision []string
		want                bench.Plan // Smallest, Precision and Margins of it
	}{
		{"nothing", "", nil, nil, bench.Plan{Precision: 0.03, Margins: []bench.Margin{first, total}}},
		{"one for all", "", []string{"5%"}, nil, bench.Plan{Smallest: 0.05, Precision: 0.03}},
		{"none", "", []string{"auto"}, nil, bench.Plan{Precision: 0.03}},
		{"one for one", "", []string{"total=10%"}, nil, bench.Plan{Precision: 0.03, Margins: []bench.Margin{first, margin("total", 0.1, 0.05)}}},
		{"one for another", "", []string{"create=10%"}, nil, bench.Plan{Precision: 0.03, Margins: []bench.Margin{first, total, margin("create", 0.1, 0.05)}}},
		{"the last one counts", "", []string{"total=10%", "total=30%"}, nil, bench.Plan{Precision: 0.03, Margins: []bench.Margin{first, margin("total", 0.3, 0.15)}}},
		{"auto for one", "", []string{"total=auto"}, nil, bench.Plan{Precision: 0.03, Margins: []bench.Margin{first}}},
		{"for one and for the others", "", []string{
			"total=10%", "5%",
		}, nil, bench.Plan{Smallest: 0.05, Precision: 0.03, Margins: []bench.Margin{margin("total", 0.1, 0.05)}}},
		{"auto for one alone", "", []string{"5%", "total=auto"}, nil, bench.Plan{Smallest: 0.05, Precision: 0.03, Margins: []bench.Margin{margin("total", 0, 0.03)}}},
		{"precision for all", "", nil, []string{"1%"}, bench.Plan{
			Precision: 0.01, Margins: []bench.Margin{margin("first_instruction", 0.04, 0.01), margin("total", 0.2, 0.01)},
		}},
		{"precision off", "", nil, []string{"off"}, bench.Plan{Margins: []bench.Margin{margin("first_instruction", 0.04, 0), margin("total", 0.2, 0)}}},
		{"precision for one", "", nil, []string{
			"total=off", "create=2%",
		}, bench.Plan{Precision: 0.03, Margins: []bench.Margin{first, margin("total", 0.2, 0), margin("create", 0, 0.02)}}},
		{"precision for one and for the others", "", nil, []string{"total=5%", "1%"}, bench.Plan{
			Precision: 0.01, Margins: []bench.Margin{margin("first_instruction", 0.04, 0.01), margin("total", 0.2, 0.05)},
		}},
		{"precision of the file", "precision: 1%\n", nil, nil, bench.Plan{
			Precision: 0.01, Margins: []bench.Margin{margin("first_instruction", 0.04, 0.01), margin("total", 0.2, 0.01)},
		}},
		{
			"precision of the file, and a flag", "precision: 1%\n",
			[]string{"total=10%"},
			nil,
			bench.Plan{
				Precision: 0.01, Margins: []bench.Margin{margin("first_instruction", 0.04, 0.01), margin("total", 0.1, 0.05)},
			},
		},
		{
			"off in the file, and a flag", "precision: off\n",
			[]string{"total=10%"},
			nil,
			bench.Plan{Margins: []bench.Margin{margin("first_instruction", 0.04, 0), margin("total", 0.1, 0)}},
		},
		{
			"precision of the file, and both flags", "precision: 1%\n",
			[]string{"total=10%"},
			[]string{"2%"},
			bench.Plan{
				Precision: 0.02, Margins: []bench.Margin{margin("first_instruction", 0.04, 0.02), margin("total", 0.1, 0.02)},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := experiment.Parse("x.yaml", []byte(text+tt.more))
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Override(experiment.Overrides{Smallest: tt.smallest, Precision: tt.precision}); err != nil {
				t.Fatal(err)
			}
			p, err := e.Plan(known(), 7)
			if err != nil {
				t.Fatal(err)
			}
			got := bench.Plan{Smallest: p.Smallest, Precision: p.Precision, Margins: p.Margins}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func overriddenPlan(t *testing.T, o experiment.Overrides) (bench.Plan, error) {
	t.Helper()
	e, err := experiment.Parse("x.yaml", []byte(overridden))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Override(o); err != nil {
		return bench.Plan{}, err
	}
	return e.Plan(known(), 7)
}

// cellNames shows the cells of each condition.
func cellNames(p bench.Plan) string {
	var conditions []string
	last := ""
	for i, c := range p.Cells {
		if i == 0 || c.Condition != last {
			conditions = append(conditions, c.Name)
		} else {
			conditions[len(conditions)-1] += ", " + c.Name
		}
		last = c.Condition
	}
	return strings.Join(conditions, " / ")
}

// TestBaseline checks which cell the others are compared with.
func TestBaseline(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"factors: {engine: [runc, native]}", "native"},
		{"factors: {engine: [runc, crun]}", "runc"},
		{"factors: {engine: [native, runc], network: [none, host]}", "native"},
		{"factors: {engine: [native, runc], network: [none, bridge]}", "native"},
		{"factors: {engine: [native, runc], memory: [unlimited, 64MiB]}", "native memory=unlimited"},
		{"factors: {engine: [native, runc]}\nconditions: {memory: [unlimited, 64MiB]}", "native/runc"},
		{"factors: {engine: [native]}\nspec: {privileged: true}", "native"},
		{"factors: {engine: [native, runc], network: [none, host]}\nbaseline: runc host", "runc host"},
		{"factors: {engine: [native, runc], network: [none, host]}\nbaseline: {network: host, engine: runc}", "runc host"},
		{"factors: {engine: auto}\nbaseline: {engine: floor}", "floor"},
		{"factors: {engine: [runc, native], image: [\"host:nginx\"]}", "native"},
		{"factors: {engine: [native, runc], image: [\"oci:dir\"]}", "runc"},
		{"cells: [{name: a, engine: runc}, {name: b, engine: crun}]\nbaseline: {engine: crun}", "b"},
	} {
		p, err := plan("x.yaml", []byte("workload: lifecycle\n"+tt.yaml))
		if err != nil {
			t.Errorf("%s: %v", tt.yaml, err)
			continue
		}
		var got []string
		for _, c := range p.Cells {
			if c.Baseline {
				got = append(got, c.Name)
			}
		}
		if s := strings.Join(got, "/"); s != tt.want {
			t.Errorf("%s: baseline %s, want %s", tt.yaml, s, tt.want)
		}
	}
}

// TestLeastBlocks checks the number of blocks against the exact signed-rank
// test: with n pairs its smallest two-sided p is 2^(1-n), and Holm's first
// step multiplies it by the number of comparisons.
func TestLeastBlocks(t *testing.T) {
	for _, tt := range []struct {
		engines, blocks string
		pids            int // levels
		min, max        int
	}{
		{"[runc]", "1..500", 1, 6, 500},         // nothing to compare: the least for an interval
		{"[runc, crun]", "1..500", 1, 7, 500},   // 2 comparisons: 2^-6 × 2 = 0.031
		{"[runc, crun]", "1..500", 2, 9, 500},   // 6: 2^-8 × 6 = 0.023
		{"[runc, crun]", "1..500", 3, 9, 500},   // 10: 2^-8 × 10 = 0.039
		{"[runc, crun]", "1..500", 64, 14, 500}, // 254: 2^-13 × 254 = 0.031
		{"[runc, crun]", "4", 3, 4, 4},          // exactly as asked
		{"[runc, crun]", "4..6", 3, 6, 6},
		{"[runc, crun]", "20..", 3, 0, 0},
		{"[runc, crun]", "{min: 600}", 1, 600, 600},
		{"[runc, crun]", "{max: 5}", 1, 5, 5},
	} {
		levels := make([]string, tt.pids)
		for i := range levels {
			levels[i] = fmt.Sprint(i + 1)
		}
		text := fmt.Sprintf("workload: lifecycle\nfactors:\n  engine: %s\n  pids: [%s]\nblocks: %s\n",
			tt.engines, strings.Join(levels, ", "), tt.blocks)
		p, err := plan("x.yaml", []byte(text))
		if (err != nil) != (tt.max == 0) {
			t.Errorf("%s, blocks %s: %v", tt.engines, tt.blocks, err)
		}
		if p.MinBlocks != tt.min || p.MaxBlocks != tt.max {
			t.Errorf("%s × %d, blocks %s: %d to %d, want %d to %d",
				tt.engines, tt.pids, tt.blocks, p.MinBlocks, p.MaxBlocks, tt.min, tt.max)
		}
	}
}

// What a flag names and no cell can have is told; what the file itself names is not,
// nor what another level goes with, nor what the plain process stands for.
func TestExcluded(t *testing.T) {
	const text = `
name: x
workload: burst
control: false
factors:
  engine: [native, docker, runc, floor]
  shape: [{name: small, cpus: 1}, {name: large, cpus: 2}]
  network: [none, host]
exclude: [{engine: docker, network: none}, {engine: floor}, {engine: runc, shape: small}]
`
	level := func(factor string, levels ...string) experiment.Levels {
		return experiment.Levels{Factor: factor, Levels: levels}
	}
	for _, test := range []struct {
		flags []experiment.Levels
		want  []bench.Label
	}{
		{nil, nil},
		{[]experiment.Levels{level("engine", "runc", "native")}, nil},
		{[]experiment.Levels{level("engine", "docker", "runc")}, nil},
		{[]experiment.Levels{level("engine", "floor", "runc")}, []bench.Label{{Key: "engine", Value: "floor"}}},
		{[]experiment.Levels{level("network", "none")}, nil},
		{[]experiment.Levels{level("engine", "docker", "runc"), level("network", "none")}, []bench.Label{{Key: "engine", Value: "docker"}}},
		{[]experiment.Levels{level("engine", "runc"), level("shape", "small", "large")}, []bench.Label{{Key: "shape", Value: "small"}}},
		{[]experiment.Levels{level("engine", "auto"), level("network", "none", "host")}, nil},
		{[]experiment.Levels{level("engine", "native"), level("network", "none", "host")}, []bench.Label{{Key: "network", Value: "none"}}},
		{[]experiment.Levels{level("engine", "runc"), level("network", "native", "host")}, nil},
		{[]experiment.Levels{level("engine", "runc"), level("network", "native")}, []bench.Label{{Key: "engine", Value: "runc"}}},
	} {
		e, err := experiment.Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Override(experiment.Overrides{Factors: test.flags}); err != nil {
			t.Fatal(err)
		}
		p, err := e.Plan(known(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, e.Excluded(p)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.flags, diff)
		}
	}
}
