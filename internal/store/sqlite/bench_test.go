package sqlite_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// wide returns a run of n samples with 50 values each, as lifecycle has them.
func wide(id string, n int) *bench.Run {
	run := storetest.Example(id, n)
	for len(run.Header.Metrics) < 50 {
		m := run.Header.Metrics[1]
		m.Name = fmt.Sprintf("counter_%d", len(run.Header.Metrics))
		run.Header.Metrics = append(run.Header.Metrics, m)
	}
	for i := range run.Samples {
		s := &run.Samples[i]
		for s.Outcome == bench.OK && len(s.Values) < 50 {
			s.Values = append(s.Values, math.Sqrt(float64(len(s.Values)*i)))
		}
	}
	return run
}

// BenchmarkAppend is what storing one sample costs.
func BenchmarkAppend(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "tare.db"))
	defer closeOrFail(b, s)
	run := wide("a", 7)
	run.Header.Schedule = nil
	w, err := s.Create(b.Context(), run.Header)
	if err != nil {
		b.Fatal(err)
	}
	defer closeOrFail(b, w)
	sample := run.Samples[0]
	for b.Loop() {
		if err := w.Append(b.Context(), sample); err != nil {
			b.Fatal(err)
		}
		sample.Trial.Seq++
	}
}

// BenchmarkAppendToFile is the cheapest thing that could be called storing: a
// line written to a plain file, and not forced to the disk.
func BenchmarkAppendToFile(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer closeOrFail(b, f)
	run := wide("a", 7)
	run.Header.Schedule = nil
	w, err := record.NewWriter(f, run.Header)
	if err != nil {
		b.Fatal(err)
	}
	sample := run.Samples[0]
	for b.Loop() {
		if err := w.Append(b.Context(), sample); err != nil {
			b.Fatal(err)
		}
		sample.Trial.Seq++
	}
}

// BenchmarkOpenMillionValues reads a run of 20,000 samples with 50 values each.
func BenchmarkOpenMillionValues(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "tare.db"))
	defer closeOrFail(b, s)
	if err := record.Copy(b.Context(), s, wide("a", 20_000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Open(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkListThousandRuns lists 1000 runs of 100 samples with 50 values each.
func BenchmarkListThousandRuns(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "tare.db"))
	defer closeOrFail(b, s)
	for i := range 1000 {
		if err := record.Copy(b.Context(), s, wide(fmt.Sprintf("run-%d", i), 100)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		for _, err := range s.Runs(b.Context()) {
			if n++; err != nil {
				b.Fatal(err)
			}
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkFindLastOfThousandRuns finds the newest of 1000 runs with long headers.
func BenchmarkFindLastOfThousandRuns(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "tare.db"))
	defer closeOrFail(b, s)
	for i := range 1000 {
		if err := record.Copy(b.Context(), s, wide(fmt.Sprintf("run-%d", i), 2)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if ids, err := s.Find(b.Context(), "", 1); err != nil || len(ids) != 1 {
			b.Fatal(ids, err)
		}
	}
}

// BenchmarkOpenStore is what every command pays to open an existing store.
func BenchmarkOpenStore(b *testing.B) {
	path := filepath.Join(b.TempDir(), "tare.db")
	if err := open(b, path).Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := sqlite.Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkImportMillionValues reads a record and stores it.
func BenchmarkImportMillionValues(b *testing.B) {
	var text bytes.Buffer
	if err := record.Write(&text, wide("a", 20_000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s := open(b, filepath.Join(b.TempDir(), "tare.db"))
		for run, err := range record.Read(bytes.NewReader(text.Bytes())) {
			if err == nil {
				err = record.Copy(b.Context(), s, run)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
