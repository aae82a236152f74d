package survey_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/workload/survey"
)

// A service is a part that is told where to find it.
type service struct{ part }

var errPort = errors.New("no port")

func (s service) Params() []bench.Param {
	return []bench.Param{{Name: "port", Default: "0", Valid: func(v string) error {
		if v == "x" {
			return errPort
		}
		return nil
	}}}
}

func (s service) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	s.say("port=" + t.Params["port"])
	return nil, nil
}

// What is said by an option's own name goes for every part that has it, and for no
// other.
func TestSharedOptions(t *testing.T) {
	for given, want := range map[string][]string{
		"":     {"pull setup time=1s", "start port=0", "http port=0", "http port=0", "http port=81"},
		"8080": {"pull setup time=1s", "start port=8080", "http port=8080", "http port=8080", "http port=8080"},
	} {
		var log []string
		w := survey.OfImages(
			part{name: "pull", log: &log, withoutFixture: true},
			service{part{name: "start", log: &log}},
			service{part{name: "http", log: &log}},
		)
		task := bench.Task{Common: new(bench.Common), Params: map[string]string{}}
		for _, p := range w.Params() {
			task.Params[p.Name] = p.Default
		}
		task.Params["rate.port"] = "81"
		task.Params["port"] = given
		if _, err := w.(bench.Fixturer).Setup(context.Background(), task); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("%q (-want +got):\n%s", given, diff)
		}
	}
}

// A part is compared with the same part of other cells, and knows its own values of
// before a run was resumed under its own names.
func TestPartKnowsWhatItIsComparedWith(t *testing.T) {
	var log []string
	told := map[string]bench.Task{}
	p := conditionRecorder{part{name: "http", log: &log}, told}
	w := survey.OfImages(part{name: "pull", log: &log}, part{name: "start", log: &log}, p)
	task := bench.Task{
		Common: new(bench.Common), Params: map[string]string{}, Condition: "clients=8",
		EarlierValue: func(metric string) (float64, bool) {
			return 70, metric == "rate.offered"
		},
	}
	if _, err := w.(bench.Fixturer).Setup(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 {
		t.Errorf("parts of %d conditions, want one for each of three", len(told))
	}
	for condition, of := range told {
		rate, known := of.EarlierValue("http.offered")
		want := strings.HasPrefix(condition, "rate ")
		if known != want || known && rate != 70 || !strings.HasSuffix(condition, "clients=8") {
			t.Errorf("%q: the rate was %v, %v", condition, rate, known)
		}
	}
}

// A conditionRecorder part keeps what it is told to set up, by its condition.
type conditionRecorder struct {
	part
	told map[string]bench.Task
}

func (k conditionRecorder) Metrics() []bench.Metric {
	return []bench.Metric{{Name: "http.offered", Role: bench.Detail}}
}

func (k conditionRecorder) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	k.told[t.Condition] = t
	return nil, nil
}

// Every part that has a shared option judges its value.
func TestSharedOptionIsChecked(t *testing.T) {
	w := survey.OfImages(part{name: "pull"}, service{part{name: "start"}}, service{part{name: "http"}})
	for _, p := range w.Params() {
		if p.Name != "port" {
			continue
		}
		for value, want := range map[string]error{"": nil, "80": nil, "x": errPort} {
			if err := p.Valid(value); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", value, err, want)
			}
		}
		return
	}
	t.Error("no port")
}

// A learner is a part that has to know something before the first trial.
type learner struct {
	part
	err error
}

func (l learner) Calibrate(_ context.Context, t bench.Task) error {
	l.say("learn time=" + t.Params["time"])
	return l.err
}

// A part of which nothing can be learned is left out of the cell in which that is so, for
// that reason.
func TestPartOfWhichNothingIsLearned(t *testing.T) {
	var log []string
	w := survey.New(
		survey.Part{Name: "a", Workload: part{name: "a", log: &log}},
		survey.Part{Name: "b", Workload: learner{part{name: "b", log: &log}, errPort}},
	)
	common := new(bench.Common)
	for cell, learned := range []bool{true, false} {
		task := bench.Task{Common: common, Cell: cell, Params: map[string]string{"b.time": "1s"}}
		if learned {
			if err := w.(bench.Calibrator).Calibrate(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}
		f, err := w.(bench.Fixturer).Setup(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		task.Fixture = f
		m := &meter{values: map[string]float64{}}
		if err := errors.Join(f.Reset(t.Context()), w.Run(t.Context(), task, m)); err != nil {
			t.Fatal(err)
		}
		var want []bench.PartOutcome
		if learned {
			want = []bench.PartOutcome{{Part: "b", Outcome: bench.Failed, Reason: errPort.Error()}}
		}
		if diff := cmp.Diff(want, m.parts); diff != "" {
			t.Errorf("cell %d (-want +got):\n%s", cell, diff)
		}
	}
	if !slices.Contains(log, "b learn time=1s") {
		t.Errorf("b was not asked with its own options: %q", log)
	}
}
