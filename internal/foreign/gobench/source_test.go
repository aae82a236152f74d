package gobench_test

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/foreign/foreigntest"
	"github.com/tare-bench/tare/internal/foreign/gobench"
)

func TestRead(t *testing.T) { foreigntest.Golden(t, gobench.Source(), "testdata/*.txt") }

func FuzzRead(f *testing.F) {
	foreigntest.Fuzz(f, gobench.Source(), "testdata/*.txt",
		"goos: linux\nBenchmarkA-8 1 NaN ns/op 0 B/op 1e400 x\nBenchmarkA-8 1 5 ns/op\n--- FAIL: BenchmarkB-8\n    x_test.go:5: no\nFAIL\n",
		"Unit a better=higher\nBenchmark/-1 3 -5 a 5 a 1 \x1b[2J/s\n", "--- FAIL: Benchmark\n \n")
}

func TestWrongFiles(t *testing.T) {
	const lines = "goos: linux\nBenchmarkA-8 \t 1\t"
	for hint, texts := range map[string]map[string]string{
		"go test -bench": {
			"":                        "f: there is no result of a benchmark in it",
			"PASS\nok  \tx\t0.003s\n": "f: there is no result of a benchmark in it",
			"BenchmarkA-8\n":          "f: there is no result of a benchmark in it", // it has begun
			"a\n" + strings.Repeat("x", 70_000) + "\n": "f:2: the line has more than 65536 bytes",
		},
		"remove the line": {
			lines:                   "f:2: missing measurements",
			lines + "2 ns/op 3\n":   "f:2: missing units",
			lines + "many ns/op\n":  "f:2: parsing measurement: invalid syntax",
			"BenchmarkA-8 log: x\n": "f:1: parsing iteration count: invalid syntax",
		},
	} {
		foreigntest.Refused(t, gobench.Source(), hint, texts)
	}
}
