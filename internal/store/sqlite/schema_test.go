package sqlite_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
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
	defer closeOrFail(t, db)
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
	defer closeOrFail(t, s)
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
	closeOrFail(t, w)
	wantRun(t, s, whole)
	if whole.Samples[6].Series == nil || whole.Samples[6].Counted == 0 {
		t.Error("nothing new was stored")
	}
	if err := record.Copy(t.Context(), s, storetest.Example("d", 8)); err != nil {
		t.Error(err)
	}
}

// fiveToSix is how a tare of format 6 brought a store of format 5 to its own.
const fiveToSix = `
ALTER TABLE samples ADD COLUMN parts TEXT;
ALTER TABLE samples ADD COLUMN trace TEXT;
ALTER TABLE samples ADD COLUMN part_failed INTEGER NOT NULL DEFAULT 0;
DROP INDEX partial_failures;
CREATE INDEX failed_parts ON samples (run) WHERE outcome = 'ok' AND part_failed;
PRAGMA user_version = 6;
`

// A store from before there were names has what it had, and takes them. A process that
// knows no names, and has it open, goes on.
func TestStoreOfFormatSix(t *testing.T) {
	path := oldStore(t, fiveToSix)
	older, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, older)
	insert, err := older.Prepare(
		"INSERT INTO runs (id, began, header, sum) SELECT ?, began, header, NULL FROM runs WHERE id = 'b'",
	)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, insert)
	s := open(t, path)
	defer closeOrFail(t, s)
	wantRun(t, s, storetest.Example("a", 5))
	if _, err := insert.Exec("older"); err != nil {
		t.Error(err)
	}
	if err := s.Rename(t.Context(), "a", "mine"); err != nil {
		t.Error(err)
	}
	if id, err := s.Named(t.Context(), "mine"); err != nil || id != "a" {
		t.Errorf("named %q, %v; want a", id, err)
	}
}

// Where such a store cannot be written it is read as it is.
func TestStoreOfFormatSixIsReadByOthers(t *testing.T) {
	dump, err := os.ReadFile(oldStore(t, fiveToSix))
	if err != nil {
		t.Fatal(err)
	}
	root := publicDir(t)
	path := filepath.Join(root, "tare.db")
	if err := os.WriteFile(path, dump, 0o444); err != nil {
		t.Fatal(err)
	}
	chmod(t, root, 0o555)
	defer chmod(t, root, 0o755)
	cmd := command(t, "read", path, "a")
	asNobody(t, cmd)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "5 ") || !strings.Contains(string(out), "permission denied") {
		t.Errorf("%v: %s; want 5 samples, and that nothing can be written", err, out)
	}
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, dump) {
		t.Errorf("the file has changed (%v)", err)
	}
}

// What an older version said of parts in a sentence is data when it is read, and counts in
// the list.
func TestOldSentencesOfParts(t *testing.T) {
	s := open(t, oldStore(t,
		`UPDATE samples SET notes = '["part-failed: few (http): \"refused\"","same-cpu"]' WHERE run = 1 AND seq = 0`,
		`UPDATE samples SET notes = '["odd: \"part-failed: few: not this"]' WHERE run = 1 AND seq = 1`,
	))
	defer closeOrFail(t, s)
	want := storetest.Example("a", 5)
	want.Samples[0].Notes = []string{"same-cpu"}
	want.Samples[0].Parts = []bench.PartOutcome{
		{Part: "few", Workload: "http", Outcome: bench.Failed, Reason: `"refused"`},
	}
	want.Samples[1].Notes = []string{`odd: "part-failed: few: not this`}
	wantRun(t, s, want)
	partly := map[string]int{}
	for r, err := range s.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		partly[r.Header.ID] = r.PartFailed
	}
	if partly["a"] != 1 || partly["b"] != 0 {
		t.Errorf("partly failed are %v, want one in a", partly)
	}
}
