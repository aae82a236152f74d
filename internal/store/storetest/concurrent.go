package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// Two processes that resume the same run do not mix their samples: the second
// to append or finish fails, and what the first appended is kept.
func testTwoWriters(t *testing.T, s *suite) {
	run := Example("a", 8)
	first := s.create(run.Header, run.Samples[:2]...)
	defer s.close(first)
	second, err := s.Resume(s.ctx, "a", run.Resumptions[0])
	s.must(err)
	defer s.close(second)
	s.must(first.Append(s.ctx, run.Samples[2]))
	if err := second.Append(s.ctx, run.Samples[2]); err == nil {
		t.Error("both writers appended trial 2")
	}
	if err := second.Finish(s.ctx, *run.End); err == nil {
		t.Error("the second writer finished a run of which it has not seen the end")
	}
	s.must(first.Append(s.ctx, run.Samples[3]))
	s.must(first.Finish(s.ctx, *run.End))
	s.wantIs("Append to what the other finished", second.Append(s.ctx, run.Samples[2]), bench.ErrFinished)
	run.Samples = run.Samples[:4]
	s.wantRun(run)
}

func testNested(t *testing.T, s *suite) {
	for _, id := range []string{"a", "b", "c"} {
		s.must(s.create(Example(id, 1).Header).Close())
	}
	n := 0
	for r, err := range s.Runs(s.ctx) {
		s.must(err)
		s.wantRun(&bench.Run{Header: r.Header})
		w, err := s.Create(s.ctx, Example("new-"+r.Header.ID, 1).Header)
		s.must(err)
		s.must(w.Close())
		if n++; n > 6 {
			t.Fatal("runs that were created meanwhile are listed for ever")
		}
	}
}

func testConcurrent(t *testing.T, s *suite) {
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if err := record.Copy(s.ctx, s, Example(fmt.Sprintf("run-%d", i), 40)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for _, err := range s.Runs(s.ctx) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range writers {
		s.wantRun(Example(fmt.Sprintf("run-%d", i), 40))
	}
}

func testContext(t *testing.T, s *suite) {
	run := Example("a", 3)
	w := s.create(run.Header, run.Samples[0])
	defer s.close(w)
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Create(gone, Example("b", 1).Header)
	s.wantIs("Create", err, context.Canceled)
	_, err = s.Resume(gone, "a", bench.Resumption{Time: run.Header.Began, Seq: 1})
	s.wantIs("Resume", err, context.Canceled)
	_, err = s.Open(gone, "a")
	s.wantIs("Open", err, context.Canceled)
	s.wantIs("Append", w.Append(gone, run.Samples[1]), context.Canceled)
	s.wantIs("Finish", w.Finish(gone, *run.End), context.Canceled)
	for _, err := range s.Runs(gone) {
		s.wantIs("Runs", err, context.Canceled)
	}
	_, err = s.Find(gone, "", 1)
	s.wantIs("Find", err, context.Canceled)
	s.must(w.Append(s.ctx, run.Samples[1])) // nothing happened
	s.wantRun(&bench.Run{Header: run.Header, Samples: run.Samples[:2]})
	if _, err := s.Open(s.ctx, "b"); err == nil {
		t.Error("Create with an ended context created a run")
	}
}
