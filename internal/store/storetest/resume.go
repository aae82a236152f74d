package storetest

import (
	"io/fs"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

func testResume(_ *testing.T, s *suite) {
	want := Example("a", 8)
	s.must(s.create(want.Header, want.Samples[:2]...).Close())
	w, err := s.Resume(s.ctx, "a", want.Resumptions[0])
	s.must(err)
	for _, sample := range want.Samples[2:] {
		s.must(w.Append(s.ctx, sample))
	}
	s.must(w.Close())
	last := want.Resumptions[0]
	last.Seq = len(want.Samples)
	want.Resumptions = append(want.Resumptions, last)
	w, err = s.Resume(s.ctx, "a", last)
	s.must(err)
	s.must(w.Finish(s.ctx, *want.End))
	s.must(w.Close())
	s.wantRun(want)
}

func testResumeMissing(_ *testing.T, s *suite) {
	_, err := s.Resume(s.ctx, "missing", Example("a", 3).Resumptions[0])
	s.wantIs("Resume", err, fs.ErrNotExist)
}

func testResumeFinished(_ *testing.T, s *suite) {
	run := Example("a", 2)
	w := s.create(run.Header, run.Samples...)
	s.must(w.Finish(s.ctx, *run.End))
	s.must(w.Close())
	_, err := s.Resume(s.ctx, "a", Example("a", 3).Resumptions[0])
	s.wantIs("Resume", err, bench.ErrFinished)
	s.wantRun(run)
}

// What the resumption was planned from is not what is stored: somebody else
// resumed the run in between.
func testResumeWrong(t *testing.T, s *suite) {
	run := Example("a", 8)
	s.must(s.create(run.Header, run.Samples[:4]...).Close())
	if _, err := s.Resume(s.ctx, "a", run.Resumptions[0]); err == nil {
		t.Error("a resumption at trial 2 is accepted after 4 trials")
	}
	run.Samples, run.Resumptions, run.End = run.Samples[:4], nil, nil
	s.wantRun(run)
}
