package cli_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// records writes a run to a file, and returns its name and its lines.
func (p *testEnv) records(t *testing.T, id string, samples int) (name string, lines []string) {
	t.Helper()
	var b strings.Builder
	if err := record.Write(&b, storetest.Example(id, samples)); err != nil {
		t.Fatal(err)
	}
	return p.write(t, id+".jsonl", b.String()), strings.SplitAfter(b.String(), "\n")
}

// damage changes the store behind tare's back.
func (p *testEnv) damage(t *testing.T, change string) {
	t.Helper()
	db, err := sql.Open("sqlite", p.store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(change); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A trial that is not what was stored is named by all who are asked for it, and
// everything else is told as before.
func TestDamageIsTold(t *testing.T) {
	t.Parallel() // nothing is measured
	p := newTestEnv(t)
	if result := p.must(t, "check"); !strings.Contains(result.stderr, "no runs yet") {
		t.Errorf("before the first run: %s", result.stderr)
	}
	for _, id := range []string{"a", "b"} {
		name, _ := p.records(t, id, 8)
		p.must(t, "import", name)
	}
	whole := p.must(t, "export", "a").stdout
	if result := p.must(t, "check"); result.stdout != "b: 8 trials, unchanged\na: 8 trials, unchanged\n" {
		t.Errorf("a whole store: %s", result.stdout)
	}
	p.damage(t, `UPDATE samples SET elapsed = elapsed + 1 WHERE run = 2 AND seq = 5`)

	check := p.tare(t, "check")
	const place = "samples of run number 2, row 5"
	if check.code != 1 || !strings.Contains(check.stdout, "b: damaged trials: 1 of 8\n  trial 5, block 3: "+
		"") || !strings.Contains(check.stdout, place) || !strings.Contains(check.stdout, "a: 8 trials, unchanged\n") {
		t.Errorf("check: exit code %d\n%s%s", check.code, check.stdout, check.stderr)
	}
	if result := p.tare(t, "check", "--json"); result.code != 1 || !strings.Contains(result.stdout, `"seq": 5`) {
		t.Errorf("check --json: exit code %d\n%s", result.code, result.stdout)
	}
	for _, format := range []string{"record", "gobench"} {
		if result := p.tare(t, "export", "b", "-f", format); result.code != 1 || !strings.Contains(result.stderr, place) ||
			result.stdout == "" {
			t.Errorf("export -f %s: exit code %d\n%s", format, result.code, result.stderr)
		}
	}
	p.must(t, "import", p.write(t, "damaged.jsonl", p.tare(t, "export", "b").stdout), "--store",
		filepath.Join(p.dir, "other.db"))
	for _, format := range [][]string{nil, {"--format", "csv"}, {"--json"}, {"--format", "markdown"}} {
		if result := p.must(t, append([]string{"show", "b"}, format...)...); !strings.Contains(result.stdout+
			result.stderr, "damaged") {
			t.Errorf("show %v says nothing of it:\n%s", format, result.stdout)
		}
	}
	if result := p.must(t, "show", "b", "--trials"); !strings.Contains(result.stdout, place) {
		t.Errorf("show --trials:\n%s", result.stdout)
	}
	if result := p.must(t, "export", "a"); result.stdout != whole {
		t.Error("the other run is another one now")
	}

	p.damage(t, `UPDATE runs SET header = replace(header, 'crun', 'runc') WHERE id = 'b'`)
	if result := p.tare(t, "export", "last"); result.code != 1 || result.stdout != "" || !strings.Contains(result.stderr,
		"cannot tell which run is the last one, because one cannot be read: run b: ") {
		t.Errorf("export of the last run, which cannot be read: exit code %d\n%s%s",
			result.code, result.stdout, result.stderr)
	}
	if result := p.must(t, "export", "a"); result.stdout != whole {
		t.Error("the other run is another one now")
	}
}

// A name or a note that is not what was stored is told, and everything that was measured is
// shown as before.
func TestDamagedNoteIsTold(t *testing.T) {
	t.Parallel() // nothing is measured
	p := newTestEnv(t)
	name, _ := p.records(t, "a", 8)
	p.must(t, "import", name)
	p.must(t, "note", "a", "a noisy neighbour", "--name", "mine")
	if result := p.must(t, "check", "mine"); result.stdout != "a: 8 trials, unchanged\n" {
		t.Errorf("check: %s", result.stdout)
	}
	p.damage(t, `UPDATE runs SET notes = replace(notes, 'noisy', 'quiet')`)
	for _, args := range [][]string{{"check"}, {"check", "a"}, {"check", "--json"}} {
		result := p.tare(t, args...)
		if result.code != 1 || !strings.Contains(result.stdout, "its checksum does not match") {
			t.Errorf("%v: exit code %d\n%s%s", args, result.code, result.stdout, result.stderr)
		}
	}
	if result := p.must(t, "show", "a", "--all"); strings.Contains(result.stdout, "quiet") ||
		!strings.Contains(result.stdout, "is damaged") {
		t.Errorf("show:\n%s", result.stdout)
	}
	if result := p.tare(t, "note", "a", "over it"); result.code != 1 {
		t.Errorf("a note over it: exit code %d: %s%s", result.code, result.stdout, result.stderr)
	}
	p.must(t, "rm", "a", "--yes")
}

// What was stored and exported before there were checksums is read, and said to be unchecked.
func TestUncheckedIsTold(t *testing.T) {
	p := newTestEnv(t)
	old, err := os.ReadFile("../store/record/testdata/v1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if result := p.must(t, "import",
		p.write(t, "v1.jsonl", string(old))); strings.Count(result.stdout, "not checked") != 2 {
		t.Errorf("import: %s", result.stdout)
	}
	dump, err := os.ReadFile("../store/sqlite/testdata/v5.sql")
	if err != nil {
		t.Fatal(err)
	}
	p.store = filepath.Join(p.dir, "v5.db")
	p.damage(t, string(dump))
	if result := p.must(t, "check"); strings.Count(result.stdout, "not checked: an older tare stored it") != 2 {
		t.Errorf("check: %s", result.stdout)
	}
}

// A run that was imported in part goes on where it ended, and nowhere else.
func TestImportGoesOn(t *testing.T) {
	t.Parallel() // nothing is measured
	p := newTestEnv(t)
	name, lines := p.records(t, "a", 1200)
	for _, part := range []struct {
		lines  int
		status string
	}{
		{1, "incomplete"}, {2, "incomplete"}, {4, "incomplete"}, {600, "incomplete"}, {600, "already stored"}, {30, "already stored"}, {len(lines), "imported"},
	} {
		result := p.must(t, "import", p.write(t, "part.jsonl", strings.Join(lines[:part.lines], "")))
		if !strings.HasPrefix(result.stdout, "a: "+part.status+", ") {
			t.Errorf("%d lines: %s", part.lines, result.stdout)
		}
	}
	other := newTestEnv(t)
	other.must(t, "import", name)
	if p.must(t, "export", "a").stdout != other.must(t, "export", "a").stdout {
		t.Error("in parts it became another run")
	}
	if result := p.must(t, "import", name); !strings.Contains(result.stdout, "a: already stored, 1,200 trials") {
		t.Errorf("the whole once more: %s", result.stdout)
	}

	different := storetest.Example("a", 1200)
	different.Samples[4].Elapsed++
	var b strings.Builder
	if err := record.Write(&b, different); err != nil {
		t.Fatal(err)
	}
	third := newTestEnv(t)
	third.must(t, "import", third.write(t, "part.jsonl", strings.Join(lines[:20], "")))
	before := third.must(t, "export", "a").stdout
	result := third.tare(t, "import", third.write(t, "different.jsonl", b.String()))
	if result.code != 1 || !strings.Contains(result.stderr, "differs from this file before trial 4") {
		t.Errorf("another run of that name: exit code %d, %s", result.code, result.stderr)
	}
	if third.must(t, "export", "a").stdout != before {
		t.Error("it changed what was stored")
	}
}

// What came before a line that cannot be read is stored, and the rest of it later.
func TestImportUpToDamage(t *testing.T) {
	p := newTestEnv(t)
	name, lines := p.records(t, "a", 40)
	broken := strings.Replace(strings.Join(lines, ""), `"seq":30`, `"seq":31`, 1)
	result := p.tare(t, "import", p.write(t, "broken.jsonl", broken))
	if result.code != 1 || !strings.Contains(result.stderr, "run a, at trial 30") ||
		!strings.Contains(result.stdout, "a: incomplete, 30 trials") {
		t.Errorf("exit code %d: %s%s", result.code, result.stdout, result.stderr)
	}
	if result := p.must(t, "import", name); !strings.Contains(result.stdout, "a: imported, 40 trials") {
		t.Errorf("the mended file: %s", result.stdout)
	}
}
