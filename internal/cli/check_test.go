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
func (p *place) records(t *testing.T, id string, samples int) (name string, lines []string) {
	t.Helper()
	var b strings.Builder
	if err := record.Write(&b, storetest.Example(id, samples)); err != nil {
		t.Fatal(err)
	}
	return p.write(t, id+".jsonl", b.String()), strings.SplitAfter(b.String(), "\n")
}

// damage changes the store behind tare's back.
func (p *place) damage(t *testing.T, change string) {
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
	p := newPlace(t)
	if said := p.must(t, "check"); !strings.Contains(said.stderr, "no runs yet") {
		t.Errorf("before the first run: %s", said.stderr)
	}
	for _, id := range []string{"a", "b"} {
		name, _ := p.records(t, id, 8)
		p.must(t, "import", name)
	}
	whole := p.must(t, "export", "a").stdout
	if said := p.must(t, "check"); said.stdout != "b: 8 trials, unchanged\na: 8 trials, unchanged\n" {
		t.Errorf("a whole store: %s", said.stdout)
	}
	p.damage(t, `UPDATE samples SET elapsed = elapsed + 1 WHERE run = 2 AND seq = 5`)

	check := p.tare(t, "check")
	const place = "samples of run number 2, row 5"
	if check.code != 1 || !strings.Contains(check.stdout, "b: damaged trials: 1 of 8\n  trial 5, block 3: "+
		"") || !strings.Contains(check.stdout, place) || !strings.Contains(check.stdout, "a: 8 trials, unchanged\n") {
		t.Errorf("check: exit code %d\n%s%s", check.code, check.stdout, check.stderr)
	}
	if said := p.tare(t, "check", "--json"); said.code != 1 || !strings.Contains(said.stdout, `"seq": 5`) {
		t.Errorf("check --json: exit code %d\n%s", said.code, said.stdout)
	}
	for _, format := range []string{"record", "json", "gobench"} {
		if said := p.tare(t, "export", "b", "-f", format); said.code != 1 || !strings.Contains(said.stderr, place) || said.stdout == "" {
			t.Errorf("export -f %s: exit code %d\n%s", format, said.code, said.stderr)
		}
	}
	p.must(t, "import", p.write(t, "damaged.jsonl", p.tare(t, "export", "b").stdout), "--store", filepath.Join(p.dir, "other.db"))
	for _, format := range [][]string{nil, {"--csv"}, {"--json"}, {"--markdown"}} {
		if said := p.must(t, append([]string{"show", "b"}, format...)...); !strings.Contains(said.stdout+said.stderr, "damaged") {
			t.Errorf("show %v says nothing of it:\n%s", format, said.stdout)
		}
	}
	if said := p.must(t, "show", "b", "--trials"); !strings.Contains(said.stdout, place) {
		t.Errorf("show --trials:\n%s", said.stdout)
	}
	if said := p.must(t, "export", "a"); said.stdout != whole {
		t.Error("the other run is another one now")
	}

	p.damage(t, `UPDATE runs SET header = replace(header, 'crun', 'runc') WHERE id = 'b'`)
	if said := p.tare(t, "export", "last"); said.code != 1 || said.stdout != "" || !strings.Contains(said.stderr,
		"cannot tell which run is the last one, because one cannot be read: run b: ") {
		t.Errorf("export of the last run, which cannot be read: exit code %d\n%s%s", said.code, said.stdout, said.stderr)
	}
	if said := p.must(t, "export", "a"); said.stdout != whole {
		t.Error("the other run is another one now")
	}
}

// A name or a note that is not what was stored is told, and everything that was measured is
// shown as before.
func TestDamagedNoteIsTold(t *testing.T) {
	p := newPlace(t)
	name, _ := p.records(t, "a", 8)
	p.must(t, "import", name)
	p.must(t, "note", "a", "a noisy neighbour", "--name", "mine")
	if said := p.must(t, "check", "mine"); said.stdout != "a: 8 trials, as they were stored\n" {
		t.Errorf("check: %s", said.stdout)
	}
	p.damage(t, `UPDATE runs SET notes = replace(notes, 'noisy', 'quiet')`)
	for _, args := range [][]string{{"check"}, {"check", "a"}, {"check", "--json"}} {
		said := p.tare(t, args...)
		if said.code != 1 || !strings.Contains(said.stdout, "its checksum does not fit") {
			t.Errorf("%v: exit code %d\n%s%s", args, said.code, said.stdout, said.stderr)
		}
	}
	if said := p.must(t, "show", "a"); strings.Contains(said.stdout, "quiet") || !strings.Contains(said.stdout, "is damaged") {
		t.Errorf("show:\n%s", said.stdout)
	}
	if said := p.tare(t, "note", "a", "over it"); said.code != 1 {
		t.Errorf("a note over it: exit code %d: %s%s", said.code, said.stdout, said.stderr)
	}
	p.must(t, "rm", "a", "--yes")
}

// What was stored and exported before there were checksums is read, and said to be unchecked.
func TestUncheckedIsTold(t *testing.T) {
	p := newPlace(t)
	old, err := os.ReadFile("../store/record/testdata/v1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if said := p.must(t, "import", p.write(t, "v1.jsonl", string(old))); strings.Count(said.stdout, "not checked") != 2 {
		t.Errorf("import: %s", said.stdout)
	}
	dump, err := os.ReadFile("../store/sqlite/testdata/v5.sql")
	if err != nil {
		t.Fatal(err)
	}
	p.store = filepath.Join(p.dir, "v5.db")
	p.damage(t, string(dump))
	if said := p.must(t, "check"); strings.Count(said.stdout, "not checked: an older tare stored it") != 2 {
		t.Errorf("check: %s", said.stdout)
	}
}

// A run that was imported in part goes on where it ended, and nowhere else.
func TestImportGoesOn(t *testing.T) {
	p := newPlace(t)
	name, lines := p.records(t, "a", 1200)
	for _, part := range []struct {
		lines  int
		status string
	}{{1, "incomplete"}, {2, "incomplete"}, {4, "incomplete"}, {600, "incomplete"}, {600, "already stored"}, {30, "already stored"}, {len(lines), "imported"}} {
		said := p.must(t, "import", p.write(t, "part.jsonl", strings.Join(lines[:part.lines], "")))
		if !strings.HasPrefix(said.stdout, "a: "+part.status+", ") {
			t.Errorf("%d lines: %s", part.lines, said.stdout)
		}
	}
	other := newPlace(t)
	other.must(t, "import", name)
	if p.must(t, "export", "a").stdout != other.must(t, "export", "a").stdout {
		t.Error("in parts it became another run")
	}
	if said := p.must(t, "import", name); !strings.Contains(said.stdout, "a: already stored, 1200 trials") {
		t.Errorf("the whole once more: %s", said.stdout)
	}

	different := storetest.Example("a", 1200)
	different.Samples[4].Elapsed++
	var b strings.Builder
	if err := record.Write(&b, different); err != nil {
		t.Fatal(err)
	}
	third := newPlace(t)
	third.must(t, "import", third.write(t, "part.jsonl", strings.Join(lines[:20], "")))
	before := third.must(t, "export", "a").stdout
	said := third.tare(t, "import", third.write(t, "different.jsonl", b.String()))
	if said.code != 1 || !strings.Contains(said.stderr, "differs from this file before trial 4") {
		t.Errorf("another run of that name: exit code %d, %s", said.code, said.stderr)
	}
	if third.must(t, "export", "a").stdout != before {
		t.Error("it changed what was stored")
	}
}

// What came before a line that cannot be read is stored, and the rest of it later.
func TestImportUpToDamage(t *testing.T) {
	p := newPlace(t)
	name, lines := p.records(t, "a", 40)
	broken := strings.Replace(strings.Join(lines, ""), `"seq":30`, `"seq":31`, 1)
	said := p.tare(t, "import", p.write(t, "broken.jsonl", broken))
	if said.code != 1 || !strings.Contains(said.stderr, "run a, at trial 30") || !strings.Contains(said.stdout, "a: incomplete, 30 trials") {
		t.Errorf("exit code %d: %s%s", said.code, said.stdout, said.stderr)
	}
	if said := p.must(t, "import", name); !strings.Contains(said.stdout, "a: imported, 40 trials") {
		t.Errorf("the mended file: %s", said.stdout)
	}
}
