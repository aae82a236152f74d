package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
	"github.com/tare-bench/tare/internal/experiment/yamldoc/yamldoctest"
)

// A workload declares metrics and options and does nothing.
type workload struct {
	name    string
	metrics []bench.Metric
	params  []bench.Param
}

func (w workload) Name() string                                       { return w.name }
func (w workload) Doc() string                                        { return "" }
func (w workload) Metrics() []bench.Metric                            { return w.metrics }
func (w workload) Params() []bench.Param                              { return w.params }
func (w workload) Check(context.Context, bench.Task) error            { return nil }
func (w workload) Run(context.Context, bench.Task, bench.Meter) error { return nil }

// known is a tare with two workloads on a machine with three engines.
func known() experiment.Known {
	number := func(s string) error {
		if _, err := strconv.Atoi(s); err != nil {
			return fmt.Errorf("%q is not a number", s)
		}
		return nil
	}
	return experiment.Known{
		Workloads: []bench.Workload{
			workload{name: "lifecycle", metrics: []bench.Metric{
				{Name: "first_instruction", Role: bench.Primary},
				{Name: "total", Role: bench.Primary},
				{Name: "create", Role: bench.Detail},
			}},
			workload{
				name:    "burst",
				metrics: []bench.Metric{{Name: "rate", Role: bench.Primary}},
				params: []bench.Param{
					{Name: "size", Default: "64", Doc: "Bytes in one message.", Valid: number},
					{Name: "clients", Default: "1", Valid: number},
					{Name: "operations"},
				},
			},
		},
		Engines: []string{"native", "floor", "runc", "crun", "docker"},
		Drivers: []experiment.Driver{
			{Name: "oci", Options: []string{"binary"}},
			{Name: "docker", Options: []string{"host"}},
		},
		Found: func() []string { return []string{"native", "floor", "runc"} },
	}
}

// plan reads and expands an experiment.
func plan(name string, data []byte) (bench.Plan, error) { return planWith(known(), name, data) }

func planWith(k experiment.Known, name string, data []byte) (bench.Plan, error) {
	e, err := experiment.Parse(name, data)
	if err != nil {
		return bench.Plan{}, err
	}
	return e.Plan(k, 7)
}

// TestErrors compares what is said about each broken file below
// testdata/errors with the golden text beside it.
func TestErrors(t *testing.T) {
	yamldoctest.Errors(t, func(name string, data []byte) error {
		_, err := plan(name, data)
		return err
	})
}

// TestPlans compares the plans of testdata/plans and of the built-in
// experiments with golden JSON.
func TestPlans(t *testing.T) {
	for _, file := range yamldoctest.Files(t, "testdata/plans/*.yaml") {
		t.Run(base(file), func(t *testing.T) {
			checkPlan(t, known(), filepath.Base(file), yamldoctest.Content(t, file), strings.TrimSuffix(file, ".yaml")+".json")
		})
	}
	for _, b := range experiment.Builtins() {
		t.Run("builtin "+b.Name, func(t *testing.T) {
			data, ok := experiment.Builtin(b.Name)
			if !ok || b.Doc == "" {
				t.Fatalf("Builtin(%q) is %t, its doc %q", b.Name, ok, b.Doc)
			}
			k := known()
			k.Workloads = app.Workloads()
			k.Engines = append(k.Engines, "podman", "containerd")
			k.Rank = []string{"floor"}
			checkPlan(t, k, b.Name+".yaml", data, "testdata/plans/builtin_"+b.Name+".json")
		})
	}
}

func checkPlan(t *testing.T, k experiment.Known, name string, data []byte, want string) {
	t.Helper()
	p, err := planWith(k, name, data)
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, p)
	again, err := planWith(k, name, data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("the same input gave another plan (-first +second):\n%s", diff)
	}
	out, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	yamldoctest.Golden(t, want, append(out, '\n'))
}

// checkInvariants holds a plan to what bench.Plan promises.
func checkInvariants(t *testing.T, p bench.Plan) {
	t.Helper()
	if len(p.Cells) == 0 {
		t.Error("the plan has no cells")
	}
	if p.MinBlocks < 1 || p.MaxBlocks < p.MinBlocks || p.Warmup < 0 {
		t.Errorf("blocks %d to %d, warm-up %d", p.MinBlocks, p.MaxBlocks, p.Warmup)
	}
	if p.TrialTime <= 0 || p.OpTime <= 0 || p.Washout < 0 || p.Budget < 0 {
		t.Errorf("times: trial %v, operation %v, washout %v, budget %v", p.TrialTime, p.OpTime, p.Washout, p.Budget)
	}
	baselines, controls, names := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, c := range p.Cells {
		baselines[c.Condition] += count(c.Baseline)
		controls[c.Condition] += count(c.Control)
		key := c.Condition + "\x00" + c.Name
		if c.Name == "" || c.Engine == "" || names[key] {
			t.Errorf("cell %q of condition %q with engine %q: empty or twice", c.Name, c.Condition, c.Engine)
		}
		names[key] = true
	}
	for condition, n := range baselines {
		if n != 1 || controls[condition] > 1 {
			t.Errorf("condition %q has %d baselines and %d controls", condition, n, controls[condition])
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestText reads what is no plain file: other encodings and sizes.
func TestText(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       string // part of the error; empty = none
	}{
		{"UTF-16", "\xff\xfew\x00", "x.yaml: the file is UTF-16"},
		{"UTF-16, the other way round", "\xfe\xff\x00w", "x.yaml: the file is UTF-16"},
		{"UTF-16 and enormous", "\xff\xfe" + strings.Repeat("#", experiment.MaxBytes), "x.yaml: the file is larger than 64 KiB"},
		{"Latin-1", "workload: lifecycle\ndoc: gr\xf6\xdfer\n", "x.yaml:2:8: byte 0xf6 is not UTF-8"},
		{"NUL", "workload: life\x00cycle\n", "x.yaml:1:15: NUL bytes are not allowed"},
		{"escape", "workload: \x1b[31m\n", "x.yaml:1:11: control character U+001B is not allowed"},
		{"lone CR", "workload: lifecycle\rbudget: 2m\n", "x.yaml:1:20: control character U+000D"},
		{"column after CRLF", "workload: lifecycle\r\nbudget: 2\r\n", "x.yaml:2:9: duration \"2\" has no unit"},
		{"as large as allowed", "workload: lifecycle\n" + strings.Repeat("#", experiment.MaxBytes-20), ""},
		{"enormous", strings.Repeat("#", experiment.MaxBytes+1), "x.yaml: the file is larger than 64 KiB"},
		{"many keys", "workload: lifecycle\n" + numbered(5000, "k%d: v\n"), "and 4990 more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := plan("x.yaml", []byte(tt.data))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func TestNothingFound(t *testing.T) {
	e, err := experiment.Parse("x.yaml", []byte("workload: lifecycle\n"))
	if err != nil {
		t.Fatal(err)
	}
	k := known()
	k.Found = func() []string { return nil }
	if _, err := e.Plan(k, 1); err == nil || !strings.Contains(err.Error(), "no engine was found on this machine") {
		t.Errorf("error %v", err)
	}
}

func TestInstances(t *testing.T) {
	e, err := experiment.Parse("dir/x.yaml",
		[]byte(
			"workload: lifecycle\nengines:\n  slow: {driver: oci, binary: /bin/slow}\n  new: {driver: docker, host: "+
				"\"unix:///n.sock\"}\n",
		))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Override(experiment.Overrides{
		Instances: []experiment.Instance{{Name: "slow", Driver: "oci"}},
	}); err != nil {
		t.Fatal(err)
	}
	want := []experiment.Instance{
		{Name: "new", Driver: "docker", Options: map[string]string{"host": "unix:///n.sock"}, Where: "dir/x.yaml:4:3"},
		{Name: "slow", Driver: "oci", Options: map[string]string{}, Where: "--engine slow"},
	}
	if diff := cmp.Diff(want, e.Instances()); diff != "" {
		t.Errorf("Instances (-want +got):\n%s", diff)
	}
	if e.Name() != "x" || e.Workload() != "lifecycle" {
		t.Errorf("name %q, workload %q", e.Name(), e.Workload())
	}
}

// TestGenerated wants the generated files to be what the table says.
func TestGenerated(t *testing.T) {
	yamldoctest.Golden(t, "../../docs/experiment.schema.json", experiment.Schema())
	page := string(yamldoctest.Content(t, "../../docs/experiment.md"))
	if !strings.Contains(page, string(experiment.Reference())) {
		t.Error("docs/experiment.md is out of date: run `go run ./internal/experiment/schemagen`")
	}
}

// FuzzPlan reads anything. Nothing may panic, and a plan that comes out keeps
// its promises.
func FuzzPlan(f *testing.F) {
	for _, pattern := range []string{"testdata/errors/*.yaml", "testdata/plans/*.yaml", "builtin/*.yaml"} {
		for _, file := range yamldoctest.Files(f, pattern) {
			f.Add(yamldoctest.Content(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan("fuzz.yaml", data)
		if err == nil {
			checkInvariants(t, p)
			return
		}
		e, ok := errors.AsType[*yamldoc.Error](err)
		if !ok || len(e.Problems) == 0 {
			t.Fatalf("error %T without problems: %v", err, err)
		}
		for _, c := range e.Error() {
			if c < ' ' && c != '\n' {
				t.Fatalf("the error has control character %q: %q", c, e.Error())
			}
		}
	})
}

func base(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }
