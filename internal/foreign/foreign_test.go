package foreign_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

func metric(name string) bench.Metric {
	return bench.Metric{Name: name, Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio}
}

// trial is one with a rate, so many minutes after noon.
func trial(minute int, rate float64, levels ...string) foreign.Trial {
	t := foreign.Trial{Began: time.Date(2026, 1, 2, 12, minute, 0, 0, time.UTC), Elapsed: time.Second}
	for i := 0; i < len(levels); i += 2 {
		t.Levels = append(t.Levels, bench.Label{Key: levels[i], Value: levels[i+1]})
	}
	t.Set("rate", rate)
	return t
}

func set(trials ...foreign.Trial) foreign.Set {
	return foreign.Set{
		Workload: "postgres", Subject: "postgres", Program: "x", Conditions: []string{"clients"},
		Metrics: []bench.Metric{metric("rate"), metric("never")}, Trials: trials,
	}
}

// Trials come in order of time. Each condition has a cell, sorted by number, and its n-th trial is in
// block n. What does not vary is a fact.
func TestRun(t *testing.T) {
	failed := trial(2, 0, "clients", "2", "wal", "a")
	failed.Failed = "its rate is 0"
	s := set(trial(3, 4, "clients", "10", "wal", "a"), trial(1, 1, "clients", "2", "wal", "a"), failed,
		trial(4, 3, "clients", "2", "wal", "a", "fsync", "off"))
	run, err := s.Run("test")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range run.Samples {
		v, _ := x.Value(0)
		got = append(got, fmt.Sprintf("%s %s block %d: %s %v", x.Began.Format("15:04"),
			run.Header.Plan.Cells[x.Trial.Cell].Condition, x.Trial.Block, x.Outcome, v))
	}
	want := []string{
		"12:01 clients=2,fsync=none block 0: ok 1", "12:02 clients=2,fsync=none block 1: failed 0",
		"12:03 clients=10,fsync=none block 0: ok 4", "12:04 clients=2,fsync=off block 0: ok 3",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]bench.Label{{Key: "wal", Value: "a"}}, run.Header.Engines[0].Facts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]bench.Metric{metric("rate")}, run.Header.Metrics); d != "" {
		t.Error(d)
	}
}

// However different they are, imported results have no verdict, and say why.
func TestNothingIsCompared(t *testing.T) {
	var all []foreign.Trial
	for i := range 20 {
		all = append(all, trial(2*i, 100, "clients", "1"), trial(2*i+1, 900, "clients", "8"))
	}
	s := set(all...)
	run, err := s.Run("test")
	if err != nil {
		t.Fatal(err)
	}
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Metrics[0].Conditions {
		for _, cell := range c.Cells {
			if cell.Comparison != nil || cell.N != 20 {
				t.Errorf("%s: %d values, comparison %v; want 20 and none", c.Condition, cell.N, cell.Comparison)
			}
		}
	}
	if r.Trust.Level != analysis.NoClaim || r.Warnings[0].Code != analysis.CodeNotApart {
		t.Errorf("trust %v, first warning %q", r.Trust, r.Warnings[0].Code)
	}
}

func TestRunLimits(t *testing.T) {
	empty := set()
	if _, err := empty.Run("test"); err == nil {
		t.Error("a run without results")
	}
	var all []foreign.Trial
	for i := range 5000 {
		all = append(all, trial(0, 1, "clients", fmt.Sprint(i)))
	}
	many := set(all...)
	if _, err := many.Run("test"); err == nil || !strings.HasPrefix(err.Error(), "5000 combinations of clients; ") {
		t.Errorf("error %v for 5000 conditions", err)
	}
}

// A directory's links lead nowhere, and what is no file is skipped.
func TestOpen(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "secret"), []byte("x\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "a"), []byte("1\n2\n"), 0o600),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "b")),
		os.Symlink(outside, filepath.Join(dir, "c")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	in, err := foreign.Open([]string{dir, foreign.Stdin}, strings.NewReader("from stdin\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range in.Files {
		if err := f.Lines(func(n int, line []byte) error {
			got = append(got, fmt.Sprintf("%s:%d %s", f.Base, n, line))
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]string{"a:1 1", "a:2 2", "stdin:1 from stdin"}, got); d != "" {
		t.Error(d)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, err := foreign.Open([]string{filepath.Join(dir, "none")}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a file that does not exist", err)
	}
}

// Stdin can be looked into before it is read, as a file can.
func TestStdin(t *testing.T) {
	in, err := foreign.Open([]string{foreign.Stdin}, strings.NewReader("a,b\n1,2\n3,4\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := in.Files[0]
	if d := cmp.Diff([]string{"a", "b"}, f.Columns()); d != "" {
		t.Error(d)
	}
	var got []string
	err = f.Rows(func(r *foreign.Row) error { got = append(got, r.Text("b")); return nil })
	if d := cmp.Diff([]string{"2", "4"}, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
}

// A file that is read as a whole is not cut where only its beginning would be looked at.
func TestWhole(t *testing.T) {
	const size = 200_000
	text, name := strings.Repeat("x", size), filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{name, foreign.Stdin} {
		in, err := foreign.Open([]string{name}, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := in.Files[0].Whole(); err != nil || len(got) != size {
			t.Errorf("%s: %d bytes, want %d; error %v", name, len(got), size, err)
		}
	}
	large := foreign.NewFile("large", strings.Repeat("x", foreign.MaxWhole+1))
	if _, err := large.Whole(); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// Tables of CSV and of Markdown have the same rows.
func TestRows(t *testing.T) {
	for name, text := range map[string]string{
		"CSV":      "a,b\n1,\"x, y\"\n,z\n",
		"Markdown": "# Title\n\n| a | b |\n| --- | --- |\n| 1 | x, y |\n|  | z |\n\n| no | row |\n",
	} {
		f := foreign.NewFile("f", text)
		if d := cmp.Diff([]string{"a", "b"}, f.Columns()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		var got []string
		err := f.Rows(func(r *foreign.Row) error {
			a, err := r.Number("a")
			got = append(got, fmt.Sprint(a, " ", r.Text("c", "b")))
			return err
		})
		if d := cmp.Diff([]string{"1 x, y", "NaN z"}, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

func TestWrongRows(t *testing.T) {
	for text, want := range map[string]string{
		"a,b\nx,y\n":                        `f:2: "x" in column a is no number`,
		"a,b\n1,2\n1\n":                     "f:3: wrong number of fields",
		"a,b\n1,\"2\n":                      `f:2: extraneous or missing " in quoted-field`,
		"a,b\n1e999,2\n":                    `f:2: "1e999" in column a is no number`,
		"a,b\n\n1,2\nz,1":                   `f:4: "z" in column a is no number`,
		"| a | b |\n| --- | --- |\n| 1 |\n": "f:3: the row has 1 columns, and the header 2",
	} {
		f := foreign.NewFile("f", text)
		err := f.Rows(func(r *foreign.Row) error { _, err := r.Number("a"); return err })
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add("a,b\n1,2\n")
	f.Add("| a | b |\n| --- | --- |\n| 1 | 2 |\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := foreign.NewFile("f", text)
		_ = file.Rows(func(r *foreign.Row) error {
			_, err := r.Number("a")
			_, err2 := r.Time("b")
			return errors.Join(err, err2)
		})
	})
}
