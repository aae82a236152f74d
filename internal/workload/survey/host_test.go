package survey_test

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/workload/survey"
)

// A toolPart is a part whose work some programs can do in its place.
type toolPart struct {
	part
	tools []string
	got   *[]string
}

func (p toolPart) Params() []bench.Param {
	return []bench.Param{{Name: "tool", Valid: bench.OneOf(append(p.tools, "")...)}}
}

func (p toolPart) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	*p.got = append(*p.got, p.name+"="+t.Params["tool"]+t.Spec.Network)
	return nil, nil
}

// hostSurvey is a survey of a whole host of two parts with tools, and what they were given.
func hostSurvey(got, log *[]string) bench.Workload {
	a := toolPart{part{name: "a", log: log}, []string{"x", "y"}, got}
	b := toolPart{part{name: "b", log: log}, []string{"y", "z"}, got}
	return survey.OfHost(
		survey.Part{Name: "a", Workload: a},
		survey.Part{Name: "b", Workload: b, Prefix: "long", NoSpec: true},
	)
}

// Each part takes the first tool of the list that it knows, and its own option goes before the list.
func TestChosenTools(t *testing.T) {
	tests := []struct {
		params map[string]string
		want   []string
	}{
		{nil, []string{"a=@peer", "b="}},
		{map[string]string{"tool": "x"}, []string{"a=x@peer", "b="}},
		{map[string]string{"tool": "z,y"}, []string{"a=y@peer", "b=z"}},
		{map[string]string{"tool": "x y", "b.tool": "z"}, []string{"a=x@peer", "b=z"}},
	}
	for _, tt := range tests {
		var got, log []string
		w := hostSurvey(&got, &log)
		task := bench.Task{Common: new(bench.Common), Params: map[string]string{"tool": "", "a.tool": "", "b.tool": ""}}
		task.Spec.Network = "@peer" // which b does not get
		maps.Copy(task.Params, tt.params)
		if _, err := w.(bench.Fixturer).Setup(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.params, diff)
		}
	}
}

// A tool that no part knows is a mistake, and the mistake has its place in the list.
func TestUnknownTool(t *testing.T) {
	var got, log []string
	param := hostSurvey(&got, &log).Params()[0]
	for value, wrong := range map[string]string{"": "", "x,z": "", "x, q": `"q" is not one of x, y, z`} {
		err := param.Valid(value)
		if text := errorText(err); text != wrong {
			t.Errorf("%q: %q, want %q", value, text, wrong)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Whoever watches is told of each part before it runs; names of metrics get the part's prefix.
func TestPartsAreTold(t *testing.T) {
	var got, log []string
	w := hostSurvey(&got, &log)
	task := bench.Task{Common: new(bench.Common), Params: map[string]string{}}
	task.PartBegins = func(name string) { log = append(log, "begins "+name) }
	f, err := w.(bench.Fixturer).Setup(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	task.Fixture = f
	m := &meter{values: map[string]float64{}}
	if err := f.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context(), task, m); err != nil {
		t.Fatal(err)
	}
	want := []string{"begins a", "a run fixture=false", "begins b", "b run fixture=false"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"a", "long.b", "a.inside.faults", "long.inside.faults"} {
		if m.values["of "+name] != 1 {
			t.Errorf("%s was not recorded once: %v", name, m.values)
		}
	}
	// Nobody is told once the trial is over.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log = nil
	_ = w.Run(ctx, task, &meter{values: map[string]float64{}}) // its parts do not look at the context
	for _, line := range log {
		if line == "begins a" {
			t.Error("told of a part after the end of the trial")
		}
	}
}
