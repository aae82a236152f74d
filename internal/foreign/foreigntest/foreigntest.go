// Package foreigntest has what the tests of packages below foreign share: golden texts of what was read, and a fuzzer.
package foreigntest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/store/record"
)

var update = flag.Bool("update", false, "write golden files")

// found is when files were written that do not say it.
var found = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// Golden reads each of the files that a pattern matches, and compares the runs that become of it with the text in
// NAME.golden.
func Golden(t *testing.T, from foreign.Source, pattern string) {
	t.Helper()
	for _, name := range files(t, pattern) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sets, err := Read(from, foreign.NewFile(filepath.Base(name), string(text)))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for i := range sets {
				run, err := valid(&sets[i])
				if err != nil {
					t.Fatal(err)
				}
				describe(&got, run)
			}
			compare(t, name+".golden", got.String())
		})
	}
}

// Read reads files, which stand for those that a user names.
func Read(from foreign.Source, files ...foreign.File) ([]foreign.Set, error) {
	return from.Read(&foreign.Input{Files: files})
}

// files are those that a pattern matches, without golden ones.
func files(tb testing.TB, pattern string) []string {
	tb.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, ".golden") })
	if len(all) == 0 {
		tb.Fatalf("there is no file %s", pattern)
	}
	return all
}

// valid makes the run of a set, and checks it as a store would.
func valid(s *foreign.Set) (*bench.Run, error) {
	if s.Found.IsZero() {
		s.Found = found
	}
	run, err := s.Run("test")
	if err != nil {
		return nil, err
	}
	run.Header.ID = "x"
	err = record.ValidateHeader(&run.Header)
	for i := range run.Samples {
		err = errors.Join(err, record.ValidateSample(&run.Header, i, &run.Samples[i]))
	}
	return run, err
}

// describe writes what is in a run, a line for each thing.
func describe(w *strings.Builder, run *bench.Run) {
	h := &run.Header
	e := h.Engines[0]
	fmt.Fprintf(w, "run of %q %q, measured by %q, workload %q, began %s\n", e.Name, e.Version, h.MeasuredBy,
		h.Plan.Workload, h.Began.Format(time.RFC3339Nano))
	fmt.Fprintf(w, "host %q %q %q %q\n", h.Host.Hostname, h.Host.Kernel, h.Host.Arch, h.Host.CPU)
	for _, l := range h.Plan.Labels {
		fmt.Fprintf(w, "label %s=%q\n", l.Key, l.Value)
	}
	for _, l := range e.Facts {
		fmt.Fprintf(w, "fact %s=%q\n", l.Key, l.Value)
	}
	for _, m := range h.Metrics {
		fmt.Fprintf(w, "metric %s: %s, in %s, %s is better, %s, %s\n", m.Name, m.Title, m.Unit, m.Better, m.Role, m.Scale)
	}
	for _, note := range h.Warnings[1:] { // the first is that of all imports
		fmt.Fprintf(w, "note %s: %s → %s\n", note.Code, note.Text, note.Hint)
	}
	for i := range run.Samples {
		sample(w, run, &run.Samples[i])
	}
	fmt.Fprintln(w)
}

func sample(w *strings.Builder, run *bench.Run, s *bench.Sample) {
	began := ""
	if !s.Began.IsZero() {
		began = s.Began.Format(time.RFC3339Nano) + " "
	}
	fmt.Fprintf(w, "block %d [%s] %s%v %s", s.Trial.Block, run.Header.Plan.Cells[s.Trial.Cell].Condition, began, s.Elapsed,
		s.Outcome)
	if s.Reason != "" {
		fmt.Fprintf(w, ": %s", s.Reason)
	}
	for i, m := range run.Header.Metrics {
		if v, ok := s.Value(i); ok {
			fmt.Fprintf(w, " %s=%.10g", m.Name, v)
		}
	}
	for _, d := range s.Distributions {
		fmt.Fprintf(w, " (distribution of %s)", d.Metric)
	}
	fmt.Fprintln(w)
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v: -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// Refused has files of one line each, or more, refused: by each text, the error with its place, and in what the hint
// says.
func Refused(t *testing.T, from foreign.Source, hint string, texts map[string]string) {
	t.Helper()
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		_, err := Read(from, foreign.NewFile("f", text))
		wrong := (*foreign.Error)(nil)
		switch {
		case err == nil || err.Error() != texts[text]:
			t.Errorf("%.200q: error %v, want %s", text, err, texts[text])
		case !errors.As(err, &wrong) || !strings.Contains(wrong.Hint, hint):
			t.Errorf("%.200q: the hint of %v does not say %q", text, err, hint)
		}
	}
}

// Fuzz has whatever is in a file refused, or made a run that a store takes. It begins with the files that a pattern
// matches, and with some texts.
func Fuzz(f *testing.F, from foreign.Source, pattern string, texts ...string) {
	for _, name := range files(f, pattern) {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := Read(from, foreign.NewFile("f", text))
		if err != nil {
			return
		}
		for i := range sets {
			run, err := valid(&sets[i])
			if run == nil {
				continue // there are limits
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range run.Samples {
				if slices.ContainsFunc(s.Values, func(v float64) bool { return math.IsInf(v, 0) }) {
					t.Errorf("impossible values %v", s.Values)
				}
			}
		}
	})
}
