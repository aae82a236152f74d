package survey_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/workload/survey"
)

const closedLoop = "closed"

// A client has the closed loop unless it is given a rate.
type client struct{ part }

func (c client) Params() []bench.Param { return []bench.Param{{Name: "rate", Default: "0"}} }

func (client) Notes() []bench.Note { return []bench.Note{{Code: closedLoop, AllParts: true}} }

func (c client) Run(_ context.Context, t bench.Task, m bench.Meter) error {
	switch t.Params["rate"] {
	case "too high":
		return errors.New("no answer")
	case "0":
		m.Note(closedLoop)
	}
	m.Record(c.name, 1)
	return nil
}

// Nobody is told to send at a rate where another part has done so.
func TestClosedLoop(t *testing.T) {
	for rate, told := range map[string]bool{"0": true, "too high": true, "70%": false} {
		var log []string
		w := survey.OfImages(
			part{name: "pull", log: &log, withoutFixture: true}, part{name: "start", log: &log, withoutFixture: true},
			client{part{name: "http", log: &log, withoutFixture: true}},
		)
		task := bench.Task{
			Common: new(bench.Common), Params: map[string]string{"few.rate": "0", "many.rate": "0", "rate.rate": rate},
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
		if got := slices.Contains(m.notes, closedLoop); got != told {
			t.Errorf("rate %s: notes %v", rate, m.notes)
		}
	}
}
