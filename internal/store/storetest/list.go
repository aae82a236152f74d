package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tare-bench/tare/internal/bench"
)

func testRuns(t *testing.T, s *suite) {
	began := Example("a", 0).Header.Began
	for _, r := range []struct {
		id     string
		age    time.Duration
		finish bool
	}{
		{"middle", time.Hour, true},
		{"newest", 0, false},
		{"oldest", 1000 * time.Hour, true},
		{"middle-by-a-nanosecond", time.Hour - 1, false},
		{"empty", 2 * time.Hour, false},
	} {
		run := Example(r.id, 11)
		run.Header.Began = began.Add(-r.age).In(time.FixedZone("far", -11*3600)) // a zone must not change the order
		part := bench.PartOutcome{Part: "disk", Outcome: bench.Failed, Reason: "no space"}
		run.Samples[0].Parts = []bench.PartOutcome{{Part: "cpu", Outcome: bench.OK, Apart: &bench.Apart{}}, part}
		run.Samples[1].Parts = []bench.PartOutcome{part, part} // counts once
		run.Samples[2].Parts = []bench.PartOutcome{{Part: "disk", Outcome: bench.Unsupported, Reason: `"failed"`}}
		run.Samples[3].Parts = []bench.PartOutcome{part} // failed as a whole
		if r.id == "empty" {
			run.Samples = nil
		}
		w := s.create(run.Header, run.Samples...)
		if r.finish {
			s.must(w.Finish(s.ctx, *run.End))
		}
		s.must(w.Close())
	}
	var got []string
	for r, err := range s.Runs(s.ctx) {
		s.must(err)
		got = append(got, fmt.Sprintf("%s %d %d %d %v", r.Header.ID, r.Samples, r.Failed, r.Partly, r.End != nil))
	}
	want := []string{"newest 11 2 2 false", "middle-by-a-nanosecond 11 2 2 false", "middle 11 2 2 true", "empty 0 0 0 false", "oldest 11 2 2 true"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ID, samples, failed, partly, finished (-want +got):\n%s", d)
	}
}

func testRunsStop(t *testing.T, s *suite) {
	for _, id := range []string{"a", "b", "c"} {
		s.must(s.create(Example(id, 0).Header).Close())
	}
	n := 0
	for _, err := range s.Runs(s.ctx) {
		s.must(err)
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}
