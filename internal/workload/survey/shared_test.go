package survey_test

import (
	"context"
	"errors"
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
		task := bench.Task{Params: map[string]string{}}
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
