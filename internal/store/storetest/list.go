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
		run.Samples[0].Parts = []bench.PartOutcome{{Part: "cpu", Outcome: bench.OK, Regrouped: &bench.Regrouping{}}, part}
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
		got = append(got, fmt.Sprintf("%s %d %d %d %v", r.Header.ID, r.Samples, r.Failed, r.PartFailed, r.End != nil))
	}
	want := []string{
		"newest 11 2 2 false", "middle-by-a-nanosecond 11 2 2 false", "middle 11 2 2 true",
		"empty 0 0 0 false", "oldest 11 2 2 true",
	}
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

// What is found are IDs that begin or end so: whatever part looks like, and by when
// runs began, which is not the order in which they came.
func testFind(t *testing.T, s *suite) {
	began := Example("a", 0).Header.Began
	for id, age := range map[string]time.Duration{"a-1": 2 * time.Hour, "a-2": 0, "b-2": time.Hour, "ab": 3 * time.Hour} {
		run := Example(id, 3)
		run.Header.Began = began.Add(-age).In(time.FixedZone("far", -11*3600))
		s.must(s.create(run.Header, run.Samples...).Close())
	}
	for _, tt := range []struct {
		part  string
		limit int
		want  []string
	}{
		{"", 0, []string{"a-2", "b-2", "a-1", "ab"}},
		{"", 1, []string{"a-2"}},
		{"", 9, []string{"a-2", "b-2", "a-1", "ab"}},
		{"a", 0, []string{"a-2", "a-1", "ab"}},
		{"a", 2, []string{"a-2", "a-1"}},
		{"2", 0, []string{"a-2", "b-2"}},
		{"b", 0, []string{"b-2", "ab"}},
		{"a-1", 0, []string{"a-1"}},
		{"-", 0, nil}, // in the middle
		{"A", 0, nil},
		{"%", 0, nil},
		{"a_1", 0, nil},
		{"' OR 1=1 --", 0, nil},
		{"a-11", 0, nil},
	} {
		got, err := s.Find(s.ctx, tt.part, tt.limit)
		s.must(err)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("Find(%q, %d) (-want +got):\n%s", tt.part, tt.limit, d)
		}
	}
}

func testFindNone(t *testing.T, s *suite) {
	for _, part := range []string{"", "a"} {
		if got, err := s.Find(s.ctx, part, 0); err != nil || len(got) > 0 {
			t.Errorf("Find(%q) of an empty store: %q, %v", part, got, err)
		}
	}
}
