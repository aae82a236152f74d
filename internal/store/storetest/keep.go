package storetest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// wantTaken checks the error of giving a run a name that another one has.
func (s *suite) wantTaken(what string, err error, name, id string) {
	s.t.Helper()
	var taken *bench.NameTaken
	if !errors.As(err, &taken) || *taken != (bench.NameTaken{Name: name, ID: id}) {
		s.t.Errorf("%s: error %v, want that run %s has the name %q", what, err, id, name)
	}
}

// wantNamed checks which run has a name; "" for none.
func (s *suite) wantNamed(name, want string) {
	s.t.Helper()
	id, err := s.Named(s.ctx, name)
	if want == "" {
		s.wantIs("Named "+name, err, fs.ErrNotExist)
	} else if err != nil || id != want {
		s.t.Errorf("Named(%q) = %q, %v; want %q", name, id, err, want)
	}
}

func testNames(t *testing.T, s *suite) {
	a, b := Example("a", 4), Example("b", 4)
	a.Resumptions, b.Resumptions, a.End, b.End = nil, nil, nil, nil
	a.Header.Name = "before-upgrade"
	s.must(s.create(a.Header, a.Samples...).Close())
	s.must(s.create(b.Header, b.Samples...).Close())
	s.wantNamed("before-upgrade", "a")
	s.wantNamed("", "")
	s.wantNamed("' OR 1=1 --", "")
	s.wantNamed("Before-Upgrade", "")

	c := Example("c", 0).Header
	c.Name = "before-upgrade"
	_, err := s.Create(s.ctx, c)
	s.wantTaken("Create", err, "before-upgrade", "a")
	_, err = s.Open(s.ctx, "c")
	s.wantIs("Open of what was refused", err, fs.ErrNotExist)
	_, err = s.Create(s.ctx, a.Header)
	s.wantIs("Create of the same run again", err, fs.ErrExist)
	s.wantTaken("Rename", s.Rename(s.ctx, "b", "before-upgrade"), "before-upgrade", "a")
	s.must(s.Rename(s.ctx, "a", "before-upgrade")) // it has it already

	s.must(s.Rename(s.ctx, "a", "old"))
	s.must(s.Rename(s.ctx, "b", "before-upgrade"))
	a.Header.Name, b.Header.Name = "old", "before-upgrade"
	s.wantRun(a)
	s.wantRun(b)
	s.wantNamed("before-upgrade", "b")
	s.must(s.Rename(s.ctx, "b", ""))
	b.Header.Name = ""
	s.wantRun(b)
	s.wantNamed("before-upgrade", "")
	s.wantIs("Rename of nothing", s.Rename(s.ctx, "missing", "x"), fs.ErrNotExist)
	for _, name := range []string{
		"last", "Last", "2026", "-a", "a b", "a/b", "é", "a\n", strings.Repeat("a", bench.MaxRunName+1),
	} {
		s.wantIs("Rename to "+name, s.Rename(s.ctx, "b", name), bench.ErrRunName)
		c.Name = name
		if _, err := s.Create(s.ctx, c); !errors.Is(err, bench.ErrRunName) {
			t.Errorf("Create of a run named %q: %v", name, err)
		}
	}
	for r, err := range s.Runs(s.ctx) {
		if s.must(err); r.Header.ID == "a" && r.Header.Name != "old" {
			t.Errorf("the list calls it %q", r.Header.Name)
		}
	}
}

// What people write is kept in order, whatever it is, beside a writer that goes on, and
// measures nothing.
func testRemarks(t *testing.T, s *suite) {
	run := Example("a", 6)
	run.Resumptions, run.End = nil, nil
	w := s.create(run.Header, run.Samples[:3]...)
	at := run.Header.Began
	for _, text := range []string{
		"the neighbour was noisy", "日本\x1b]0;\a\n\u202e' --", strings.Repeat("x", bench.MaxRemark),
	} {
		at = at.Add(time.Hour)
		r := bench.Remark{Time: at, Text: text}
		s.must(s.Annotate(s.ctx, "a", r))
		run.Header.Remarks = append(run.Header.Remarks, r)
	}
	for _, sample := range run.Samples[3:] {
		s.must(w.Append(s.ctx, sample))
	}
	s.must(w.Close())
	s.wantRun(run)
	for _, r := range []bench.Remark{
		{Time: at},
		{Time: at, Text: " \n"},
		{Text: "x"},
		{Time: at, Text: "\xff"},
		{Time: at, Text: strings.Repeat("x", bench.MaxRemark+1)},
	} {
		if err := s.Annotate(s.ctx, "a", r); err == nil {
			t.Errorf("a remark %.20q at %v is kept", r.Text, r.Time)
		}
	}
	s.wantIs("Annotate", s.Annotate(s.ctx, "missing", bench.Remark{Time: at, Text: "x"}), fs.ErrNotExist)
	for range bench.MaxRemarks - len(run.Header.Remarks) {
		s.must(s.Annotate(s.ctx, "a", bench.Remark{Time: at, Text: "x"}))
	}
	s.wantIs("one too many", s.Annotate(s.ctx, "a", bench.Remark{Time: at, Text: "x"}), bench.ErrManyRemarks)
}

func testRemove(t *testing.T, s *suite) {
	other := Example("b", 8)
	s.must(record.Copy(s.ctx, s, other))
	for range 2 { // a run that was removed can come again
		run := Example("a", 8)
		run.Header.Name = "mine"
		s.must(record.Copy(s.ctx, s, run))
		s.must(s.Annotate(s.ctx, "a", bench.Remark{Time: run.Header.Began, Text: "x"}))
		s.must(s.Remove(s.ctx, "a"))
		_, err := s.Open(s.ctx, "a")
		s.wantIs("Open", err, fs.ErrNotExist)
		s.wantIs("Remove again", s.Remove(s.ctx, "a"), fs.ErrNotExist)
		s.wantNamed("mine", "")
	}
	var ids []string
	for r, err := range s.Runs(s.ctx) {
		s.must(err)
		ids = append(ids, r.Header.ID)
	}
	if d := cmp.Diff([]string{"b"}, ids); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
	if c, ok := s.Store.(bench.Compacter); ok {
		s.must(c.Compact(s.ctx))
	}
	s.wantRun(other)
}

// A run that is removed while others are listed is missing from the list, and no error.
func testRemoveWhileListed(t *testing.T, s *suite) {
	for _, id := range []string{"a", "b", "c"} {
		s.must(s.create(Example(id, 0).Header).Close())
	}
	var ids []string
	for r, err := range s.Runs(s.ctx) {
		s.must(err)
		if ids = append(ids, r.Header.ID); len(ids) == 1 {
			s.must(s.Remove(s.ctx, "b"))
		}
	}
	if d := cmp.Diff([]string{"c", "a"}, ids); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
}

// Who still writes to a run that was removed writes nothing, and not to the run that
// came after it.
func testRemoveUnderWriter(_ *testing.T, s *suite) {
	run := Example("a", 4)
	w := s.create(run.Header, run.Samples[:2]...)
	s.must(s.Remove(s.ctx, "a"))
	next := Example("b", 4)
	next.Resumptions, next.End, next.Samples = nil, nil, next.Samples[:2]
	s.must(s.create(next.Header, next.Samples...).Close())
	s.wantIs("Append", w.Append(s.ctx, run.Samples[2]), fs.ErrNotExist)
	s.wantIs("Finish", w.Finish(s.ctx, *run.End), fs.ErrNotExist)
	s.must(w.Close())
	s.wantRun(next)
}

// An import keeps what was written, and loses a name that is another run's.
func testImportWritten(t *testing.T, s *suite) {
	want := Example("a", 5)
	want.Header.Name = "mine"
	want.Header.Remarks = []bench.Remark{
		{Time: want.Header.Began, Text: "first\n\x1b"}, {Time: want.Header.Began.Add(1), Text: "second"},
	}
	var pipe strings.Builder
	s.must(record.Write(&pipe, want))
	for run, err := range record.Read(strings.NewReader(pipe.String())) {
		s.must(err)
		s.must(record.Copy(s.ctx, s, run))
		s.wantIs("Copy twice", record.Copy(s.ctx, s, run), fs.ErrExist)
	}
	s.wantRun(want)

	other := Example("b", 5)
	other.Header.Name = "mine"
	c, err := record.NewCopier(s.ctx, s, other.Header)
	s.must(err)
	s.must(c.Close())
	if name, taken := c.Name(); name != "" || taken == nil || taken.ID != "a" {
		t.Errorf("imported as %q, taken by %v; want no name, as run a has it", name, taken)
	}
	_, err = record.NewFetcher(s.ctx, s, other.Header) // which was not imported
	s.wantIs("fetch of another run with that ID", err, record.ErrDiffers)
	s.must(s.Annotate(s.ctx, "b", bench.Remark{Time: other.Header.Began, Text: "here"}))
	if _, can := s.Store.(record.Continuer); !can {
		return
	}
	s.must(record.Copy(s.ctx, s.Store, other)) // it goes on, though its header is another one now
	other.Header.Name = ""
	other.Header.Remarks = []bench.Remark{{Time: other.Header.Began, Text: "here"}}
	s.wantRun(other)
}
