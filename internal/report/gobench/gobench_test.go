package gobench_test

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report/gobench"
)

// small is a run of 2 blocks after 1 of warm-up, with names that are hard to write.
func small() *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 2, Warmup: 1, NoControl: true, Conditions: []string{"clients=8"},
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "app 1/x-8 %", Factor: 2}},
	})
}

func write(t *testing.T, run *bench.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gobench.Write(&b, &run.Header, samples(run, nil)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// samples yields those of a run, and then an error unless it is nil. Each one takes the place of
// the one before, so nothing may hold them.
func samples(run *bench.Run, last error) iter.Seq2[*bench.Sample, error] {
	return func(yield func(*bench.Sample, error) bool) {
		var s bench.Sample
		for i := range run.Samples {
			if s = run.Samples[i]; !yield(&s, nil) {
				return
			}
		}
		if last != nil {
			yield(nil, last)
		}
	}
}

// TestUnreadable checks that nothing is written of a run that cannot be read to its end.
func TestUnreadable(t *testing.T) {
	run := small()
	var b bytes.Buffer
	broken := errors.New("broken")
	if err := gobench.Write(&b, &run.Header, samples(run, broken)); !errors.Is(err, broken) || b.Len() > 0 {
		t.Errorf("%v, after %q; want the error, after nothing", err, b.String())
	}
}

// TestRead checks that benchstat's own reader sees every value.
func TestRead(t *testing.T) {
	run := small()
	failed := &run.Samples[len(run.Samples)-1]
	failed.Outcome, failed.Values = bench.Failed, nil
	r := benchfmt.NewReader(bytes.NewReader(write(t, run)), "run")
	var got []*benchfmt.Result
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			got = append(got, rec.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%v", rec)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	var want []bench.Sample
	for _, s := range run.Samples {
		if s.Outcome == bench.OK && !s.Trial.Warmup() {
			want = append(want, s)
		}
	}
	if len(got) != 3 || len(want) != 3 {
		t.Fatalf("%d results of %d trials, want 3", len(got), len(want))
	}
	for i, res := range got {
		name := []string{
			"Tare/workload=lifecycle/cell=native/condition=clients=8-2",
			"Tare/workload=lifecycle/cell=app%201%2Fx-8%20%25/condition=clients=8-2",
		}[want[i].Trial.Cell]
		if string(res.Name) != name {
			t.Errorf("name %q, want %q", res.Name, name)
		}
		if v, ok := res.Value("first_instruction-sec/op"); !ok || v != want[i].Values[0] {
			t.Errorf("value %v (%v), want %v", v, ok, want[i].Values[0])
		}
		if len(res.Values) != 6 {
			t.Errorf("%d values, want those of the primary and detail metrics", len(res.Values))
		}
		if host := res.GetConfig("host"); host != "vm" {
			t.Errorf("host %q", host)
		}
	}
	if better := r.Units().Get("total-sec/op", "better"); better == nil || better.Value != "lower" {
		t.Errorf("better is %+v, want lower", better)
	}
}

// TestNotMeasured checks that nothing is said of a metric without values.
func TestNotMeasured(t *testing.T) {
	run := small()
	for i := range run.Samples {
		run.Samples[i].Values[1] = math.NaN()
	}
	out := string(write(t, run))
	if strings.Contains(out, "total") || !strings.Contains(out, "Unit first_instruction-sec/op") {
		t.Errorf("the units of what has values, and of nothing else:\n%s", out)
	}
}

// TestHostile checks that texts from a stored run cannot add lines.
func TestHostile(t *testing.T) {
	run := small()
	plain := bytes.Count(write(t, run), []byte("\n"))
	run.Header.Host.CPU = "x\nBenchmarkEvil 1 0.1 sec/op\x1b[31m\u202e"
	run.Header.Plan.Workload = "a b\nc\x1b"
	run.Header.Plan.Cells[0].Name = "\n\n/\u2028"
	run.Header.Metrics[0].Name = "a b\n"
	out := write(t, run)
	if got := bytes.Count(out, []byte("\n")); got != plain {
		t.Errorf("%d lines, want %d", got, plain)
	}
	if i := strings.IndexFunc(string(out), func(r rune) bool {
		return r < ' ' && r != '\n' || r == '\u202e' || r == '\u2028'
	}); i >= 0 {
		t.Errorf("a control character at %d in %q", i, out)
	}
}
