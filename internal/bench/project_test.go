package bench_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

func TestProjectRun(t *testing.T) {
	for name, want := range map[string]string{
		bench.ProjectName("20261124-111555-abcd", "0f0f"): "20261124-111555-abcd",
		bench.ProjectName("r", "1"):                       "r",
		"shop":                                            "",
		"tare-":                                           "",
		"tare-shop":                                       "",
		"tare-shop-":                                      "",
		"tare--x":                                         "",
		"tare-Shop-x":                                     "",
		"x-tare-run-1":                                    "",
	} {
		if got := bench.ProjectRun(name); got != want {
			t.Errorf("%q is of run %q, want %q", name, got, want)
		}
	}
}
