package storetest

import (
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

func testRead(_ *testing.T, s *suite) {
	want := Example("a", 8)
	want.Resumptions = nil
	w := s.create(want.Header, want.Samples...)
	s.must(w.Finish(s.ctx, *want.End))
	s.must(w.Close())
	s.wantRun(want)
}

// A writer that is closed, or just forgotten, leaves a prefix.
func testPrefix(_ *testing.T, s *suite) {
	for n := range 4 {
		for _, closed := range []bool{true, false} {
			want := Example(fmt.Sprintf("run-%d-%v", n, closed), 8)
			want.Samples, want.Resumptions, want.End = want.Samples[:n:n], nil, nil
			if n == 0 {
				want.Samples = nil
			}
			w := s.create(want.Header, want.Samples...)
			if closed {
				s.must(w.Close())
			} else {
				defer s.close(w)
			}
			s.wantRun(want)
		}
	}
}

func testReadWhileWriting(_ *testing.T, s *suite) {
	want := Example("a", 8)
	w := s.create(want.Header)
	defer s.close(w)
	for i, sample := range want.Samples {
		s.must(w.Append(s.ctx, sample))
		s.wantRun(&bench.Run{Header: want.Header, Samples: want.Samples[:i+1]})
	}
}

func testCreateTwice(_ *testing.T, s *suite) {
	run := Example("a", 1)
	w := s.create(run.Header, run.Samples...)
	other := run.Header
	other.Tool = "other"
	_, err := s.Create(s.ctx, other)
	s.wantIs("Create of an unfinished run", err, fs.ErrExist)
	s.must(w.Finish(s.ctx, *run.End))
	s.must(w.Close())
	_, err = s.Create(s.ctx, other)
	s.wantIs("Create of a finished run", err, fs.ErrExist)
	s.wantRun(run)
}

func testCreateInvalid(t *testing.T, s *suite) {
	for name, spoil := range map[string]func(*bench.Header){
		"path for an ID": func(h *bench.Header) { h.ID = "../x" },
		"no cells":       func(h *bench.Header) { h.Plan.Cells = nil },
		"NaN":            func(h *bench.Header) { h.Plan.Precision = math.NaN() },
		"infinite margin": func(h *bench.Header) {
			h.Plan.Margins = []bench.Margin{{Metric: "total", Smallest: math.Inf(1)}}
		},
		"one name twice": func(h *bench.Header) { h.Metrics[1].Name = h.Metrics[0].Name },
	} {
		h := Example("a", 1).Header
		spoil(&h)
		if _, err := s.Create(s.ctx, h); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for r, err := range s.Runs(s.ctx) {
		t.Errorf("a refused run is listed: %v, %v", r, err)
	}
}

func testOpenMissing(_ *testing.T, s *suite) {
	for _, id := range []string{"missing", "", "' OR 1=1 --", "%", "a\x00b"} {
		_, err := s.Open(s.ctx, id)
		s.wantIs(fmt.Sprintf("Open(%q)", id), err, fs.ErrNotExist)
	}
}

func testFinished(_ *testing.T, s *suite) {
	run := Example("a", 4)
	next := run.Samples[2]
	run.Samples, run.Resumptions = run.Samples[:2], nil
	w := s.create(run.Header, run.Samples...)
	s.must(w.Finish(s.ctx, *run.End))
	s.wantIs("Append", w.Append(s.ctx, next), bench.ErrFinished)
	s.wantIs("Finish", w.Finish(s.ctx, bench.End{Time: run.End.Time, Reason: bench.StopBudget}), bench.ErrFinished)
	s.must(w.Close())
	s.wantRun(run)
}

func testSeq(t *testing.T, s *suite) {
	run := Example("a", 8)
	w := s.create(run.Header, run.Samples[:2]...)
	for _, wrong := range []int{0, 1, 3, 7} {
		if err := w.Append(s.ctx, run.Samples[wrong]); err == nil {
			t.Errorf("Append of trial %d after trial 1 succeeded", wrong)
		}
	}
	s.must(w.Append(s.ctx, run.Samples[2])) // what was refused did no harm
	s.must(w.Close())
	s.wantRun(&bench.Run{Header: run.Header, Samples: run.Samples[:3]})
}

// A run that went over a pipe and into another store is the same there.
func testImport(t *testing.T, s *suite) {
	want := Example("a", 9)
	var pipe strings.Builder
	s.must(record.Write(&pipe, want))
	for run, err := range record.Read(strings.NewReader(pipe.String())) {
		s.must(err)
		s.must(record.Copy(s.ctx, s, run))
		s.wantIs("Copy twice", record.Copy(s.ctx, s, run), fs.ErrExist)
	}
	s.wantRun(want)
	if got, err := s.Open(s.ctx, want.Header.ID); err != nil || !got.Header.Imported {
		t.Errorf("an imported run does not say so (%v): it could be resumed, with whatever its file says", err)
	}
	incomplete := Example("b", 9)
	incomplete.End = nil
	s.must(record.Copy(s.ctx, s, incomplete))
	s.wantRun(incomplete)
	if t.Failed() {
		t.Log(pipe.String())
	}
}
