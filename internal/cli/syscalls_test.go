package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// A workload that looks at nothing inside goes on without, and says so once.
func TestSystemCallsOfAWorkloadWithoutThem(t *testing.T) {
	p := newTestEnv(t)
	var d report.Document
	decode(t, p.must(t, "run", "lifecycle", "--engine", "native", "--blocks", "1", "--warmup", "0", "--washout", "off",
		"--syscalls", "--json").stdout, &d)
	if result := aboutCalls(d); len(result) != 1 || result[0].Code != "syscalls-not-counted" ||
		!strings.Contains(result[0].Text, "lifecycle") {
		t.Errorf("%+v", result)
	}
}

// What was counted, or that nothing was, is said once.
func TestSystemCallsAreSaid(t *testing.T) {
	p := newTestEnv(t)
	file := filepath.Join(p.dir, "records")
	var d report.Document
	decode(t,
		p.must(t, "run", "cpu", "--engine", "native", "--blocks", "1", "--warmup", "0", "--washout", "off", "--syscalls",
			"--param", "kernels=integer", "--param", "time=20ms", "--json", "-o", file).stdout, &d)
	records, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "syscalls-not-counted"
	if strings.Contains(string(records), `"inside.syscalls":`) {
		want = "syscalls-counted"
	}
	if result := aboutCalls(d); len(result) != 1 || result[0].Code != want ||
		os.Geteuid() == 0 && want != "syscalls-counted" {
		t.Errorf("want %s: %+v", want, result)
	}
}

func aboutCalls(d report.Document) []report.Warning {
	return slices.DeleteFunc(d.Warned, func(w report.Warning) bool { return !strings.HasPrefix(w.Code, "syscalls-") })
}
