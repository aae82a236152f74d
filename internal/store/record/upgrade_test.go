package record_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// What older versions said of parts in sentences means what it meant; every other note,
// and what only looks like one of them, stays a note.
func TestUpgrade(t *testing.T) {
	apart := func(part, with string) bench.PartOutcome {
		return bench.PartOutcome{
			Part: part, Outcome: bench.OK, Regrouped: &bench.Regrouping{
				With: []string{with}, Usual: []string{"few", "many", "rate"},
			},
		}
	}
	for _, test := range []struct {
		note  string
		parts []bench.PartOutcome
	}{
		{"host-clock", nil},
		{"part-failed", nil},
		{"part-failed: ", nil},
		{"part-failed-not: disk: no space", nil},
		{"part-apart: many: somewhere else", nil},
		{"part-apart: many: in containers for few, usually for few, many", nil},
		{"partly: pull: not supported here: no registry", []bench.PartOutcome{
			{Part: "pull", Outcome: bench.Unsupported, Reason: "not supported here: no registry"},
		}},
		{"part-failed: disk: create: no space", []bench.PartOutcome{{Part: "disk", Outcome: bench.Failed, Reason: "create: no space"}}},
		{"part-failed: few (http): refused", []bench.PartOutcome{{Part: "few", Workload: "http", Outcome: bench.Failed, Reason: "refused"}}},
		{"part-apart: many, rate: in containers for many; rate, usually for few, many, rate", []bench.PartOutcome{apart("many", "many"), apart("rate", "rate")}},
	} {
		s := bench.Sample{Notes: []string{"same-cpu", test.note}}
		record.Upgrade(&s)
		want := bench.Sample{Notes: []string{"same-cpu", test.note}, Parts: test.parts}
		if test.parts != nil {
			want.Notes = want.Notes[:1]
		}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.note, diff)
		}
	}
}

// A sample says by its note that its trial was traced, also where it cannot be read any more.
func TestTracedComesBack(t *testing.T) {
	run := example()
	run.Header.Schedule[1] = append(run.Header.Schedule[1], 1, 0)
	s := bench.Sample{
		Trial: bench.Trial{Seq: 0, Block: -1, Cell: run.Header.Schedule[0][0]}, Outcome: bench.OK, Values: []float64{1, 2},
		Series: []bench.Series{{Metric: "a", Values: []float64{1}}},
	}
	s.MarkTraced()
	run.Samples, run.Resumptions, run.End = []bench.Sample{s}, nil, nil
	got, err := read(strings.NewReader(encode(t, run)))
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(run, got[0]); d != "" || !got[0].Samples[0].Trial.Traced {
		t.Errorf("(-want +got):\n%s", d)
	}
	if timed := got[0].Timed(); len(timed.Samples) != 0 || len(got[0].Samples) != 1 {
		t.Errorf("%d samples are timed", len(timed.Samples))
	}
	for seq, want := range []bool{false, false, false, false, true, true} {
		if s := record.Damaged(&run.Header, seq, errors.New("rust")); s.Trial.Traced != want {
			t.Errorf("trial %d: traced %v", seq, s.Trial.Traced)
		}
	}
}
