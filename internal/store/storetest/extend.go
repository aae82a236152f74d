package storetest

import (
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// Extended returns the run of Example with n samples, an even number, extended by as many
// again of blocks that its schedule did not have: how it is read, and how it was before.
func Extended(id string, n int) (run, before *bench.Run) {
	before, run = Example(id, n), Example(id, 2*n)
	e := &bench.Extension{
		MaxBlocks: n, Budget: time.Hour, Schedule: run.Header.Schedule[len(before.Header.Schedule):], After: *before.End,
	}
	run.Header = before.Header
	run.Resumptions = append(run.Resumptions, bench.Resumption{
		Time: before.End.Time.Add(time.Minute), Tool: "later", Seq: n, Host: run.Header.Host, Extension: e,
	})
	run.End = &bench.End{Time: before.End.Time.Add(time.Hour), Reason: bench.StopBudget}
	return run, before
}

// finished stores a run that is complete.
func (s *suite) finished(run *bench.Run) {
	s.t.Helper()
	s.must(record.Copy(s.ctx, s, run))
}

func testExtend(t *testing.T, s *suite) {
	want, before := Extended("a", 4)
	s.finished(before)
	extension := want.Resumptions[1]
	w, err := s.Resume(s.ctx, "a", extension)
	s.must(err)

	// It is incomplete until it ends again, and a second process comes too late.
	got, err := s.Open(s.ctx, "a")
	s.must(err)
	if got.End != nil || got.Looks() != 2 {
		t.Errorf("while it is extended its end is %v after %d looks, want none after 2", got.End, got.Looks())
	}
	_, err = s.Resume(s.ctx, "a", extension)
	s.wantIs("Resume by another process", err, bench.ErrExtended)

	for _, sample := range want.Samples[4:] {
		s.must(w.Append(s.ctx, sample))
	}
	s.must(w.Finish(s.ctx, *want.End))
	s.must(w.Close())
	_, err = s.Resume(s.ctx, "a", extension)
	s.wantIs("Resume after another process", err, bench.ErrExtended)
	s.wantRun(want)
}

// An extension that is interrupted goes on as any run does, in the longer schedule.
func testExtendInterrupted(_ *testing.T, s *suite) {
	want, before := Extended("a", 4)
	s.finished(before)
	w, err := s.Resume(s.ctx, "a", want.Resumptions[1])
	s.must(err)
	s.must(w.Append(s.ctx, want.Samples[4]))
	s.must(w.Close())
	again := bench.Resumption{
		Time: want.End.Time, Tool: "later", Seq: 5, Host: want.Header.Host,
		Warnings: []bench.Warning{{Code: "host-load", Text: "load average 7.00", Hint: "wait"}},
	}
	w, err = s.Resume(s.ctx, "a", again)
	s.must(err)
	for _, sample := range want.Samples[5:] {
		s.must(w.Append(s.ctx, sample))
	}
	s.must(w.Finish(s.ctx, *want.End))
	s.must(w.Close())
	want.Resumptions = append(want.Resumptions, again)
	s.wantRun(want)
}

func testExtendWrong(t *testing.T, s *suite) {
	run, before := Extended("a", 4)
	s.finished(before)
	for what, change := range map[string]func(*bench.Resumption){
		"more blocks than are scheduled":  func(r *bench.Resumption) { r.Extension.MaxBlocks = 5 },
		"a cell that there is not":        func(r *bench.Resumption) { r.Extension.Schedule = [][]int{{7}, {0, 1}} },
		"another trial than the next one": func(r *bench.Resumption) { r.Seq = 3 },
		"no blocks":                       func(r *bench.Resumption) { r.Extension.MaxBlocks = 0 },
	} {
		r, e := run.Resumptions[1], *run.Resumptions[1].Extension
		r.Extension = &e
		change(&r)
		if _, err := s.Resume(s.ctx, "a", r); err == nil {
			t.Errorf("%s: it is extended", what)
		}
	}
	s.wantRun(before)
}

// A copy of a run is extended by importing the run once more, and not by what it was.
func testExtendImported(t *testing.T, s *suite) {
	want, before := Extended("a", 4)
	for i, run := range []*bench.Run{before, want, before, want} {
		err := record.Copy(s.ctx, s, run)
		if known := i > 1; (err != nil) != known {
			t.Fatalf("copy %d: %v, want an error: %v", i, err, known)
		}
		if i == 0 {
			s.wantRun(before)
		} else {
			s.wantRun(want)
		}
	}
	other, _ := Extended("b", 4)
	s.must(record.Copy(s.ctx, s, other))
	s.wantRun(other)
}
