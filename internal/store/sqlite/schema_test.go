package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// testdata/v5.sql is the dump of a store of format 5 from before the first release:
// a complete run "a" and an incomplete one "b" without checksums, and a complete run
// "c" with them. It is never written again. Changes are made in it before it is opened.
func oldStore(t *testing.T, changes ...string) (path string) {
	t.Helper()
	dump, err := os.ReadFile("testdata/v5.sql")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "tare.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, db)
	for _, statements := range append([]string{string(dump)}, changes...) {
		if _, err := db.Exec(statements); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// A store that was made before the first release opens, has what it had, and takes
// what is new.
func TestOldStoreIsRead(t *testing.T) {
	s := open(t, oldStore(t))
	defer shut(t, s)
	wantRun(t, s, storetest.Example("a", 5))
	last := storetest.Example("c", 8)
	for i := range last.Samples {
		last.Samples[i].Parts, last.Samples[i].Trace = nil, nil // format 5 had none
	}
	wantRun(t, s, last)

	whole := storetest.Example("b", 8)
	whole.Resumptions = append(whole.Resumptions, bench.Resumption{Time: whole.Header.Began, Seq: 5})
	old, err := s.Open(t.Context(), "b")
	if err != nil || len(old.Samples) != 5 {
		t.Fatalf("%d samples, error %v", len(old.Samples), err)
	}
	whole.Header = old.Header
	w, err := s.Resume(t.Context(), "b", whole.Resumptions[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range whole.Samples[5:] {
		sample.Trial.Block = sample.Trial.Seq % 3 // the old run had three blocks
		whole.Samples[sample.Trial.Seq] = sample
		if err := w.Append(t.Context(), sample); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(t.Context(), *whole.End); err != nil {
		t.Fatal(err)
	}
	shut(t, w)
	wantRun(t, s, whole)
	if whole.Samples[6].Series == nil || whole.Samples[6].Counted == 0 {
		t.Error("nothing new was stored")
	}
	if err := record.Copy(t.Context(), s, storetest.Example("d", 8)); err != nil {
		t.Error(err)
	}
}

// What an older version said of parts in a sentence is data when it is read, and counts in
// the list.
func TestOldSentencesOfParts(t *testing.T) {
	s := open(t, oldStore(t,
		`UPDATE samples SET notes = '["part-failed: few (http): \"refused\"","same-cpu"]' WHERE run = 1 AND seq = 0`,
		`UPDATE samples SET notes = '["odd: \"part-failed: few: not this"]' WHERE run = 1 AND seq = 1`,
	))
	defer shut(t, s)
	want := storetest.Example("a", 5)
	want.Samples[0].Notes = []string{"same-cpu"}
	want.Samples[0].Parts = []bench.PartOutcome{{Part: "few", Workload: "http", Outcome: bench.Failed, Reason: `"refused"`}}
	want.Samples[1].Notes = []string{`odd: "part-failed: few: not this`}
	wantRun(t, s, want)
	partly := map[string]int{}
	for r, err := range s.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		partly[r.Header.ID] = r.Partly
	}
	if partly["a"] != 1 || partly["b"] != 0 {
		t.Errorf("partly failed are %v, want one in a", partly)
	}
}
