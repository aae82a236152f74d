package cli_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

func benchmarkProgram(b *testing.B, args ...string) {
	b.Helper()
	for b.Loop() {
		if out, err := exec.CommandContext(b.Context(), "tare", args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

func BenchmarkHelp(b *testing.B) { benchmarkProgram(b, "--help") }

// BenchmarkShowHundredCells shows a stored run of 100 cells and 100 blocks.
func BenchmarkShowHundredCells(b *testing.B) {
	shape := analysistest.Shape{Seed: 1, Blocks: 100}
	for i := range 100 {
		shape.Cells = append(shape.Cells, analysistest.Cell{Name: fmt.Sprintf("cell-%02d", i), Factor: 1 + float64(i)/50})
	}
	run := analysistest.Run(shape)
	path := filepath.Join(b.TempDir(), "tare.db")
	s, err := sqlite.Open(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	if err := record.Copy(b.Context(), s, run); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	benchmarkProgram(b, "show", run.Header.ID, "--store", path)
}
