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
	p := newPlace(t)
	var d report.Document
	decode(t, p.must(t, "run", "lifecycle", "--engine", "native", "--blocks", "1", "--warmup", "0", "--washout", "off", "--syscalls", "--json").stdout, &d)
	if said := aboutCalls(d); len(said) != 1 || said[0].Code != "syscalls-not-counted" || !strings.Contains(said[0].Text, "lifecycle") {
		t.Errorf("%+v", said)
	}
}

// What was counted, or that nothing was, is said once.
func TestSystemCallsAreSaid(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(p.dir, "records")
	var d report.Document
	decode(t, p.must(t, "run", "cpu", "--engine", "native", "--blocks", "1", "--warmup", "0", "--washout", "off", "--syscalls",
		"--param", "kernels=integer", "--param", "time=20ms", "--json", "-o", file).stdout, &d)
	records, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "syscalls-not-counted"
	if strings.Contains(string(records), `"inside.syscalls":`) {
		want = "syscalls-counted"
	}
	if said := aboutCalls(d); len(said) != 1 || said[0].Code != want || os.Geteuid() == 0 && want != "syscalls-counted" {
		t.Errorf("want %s: %+v", want, said)
	}
}

func aboutCalls(d report.Document) []report.Warn {
	return slices.DeleteFunc(d.Warned, func(w report.Warn) bool { return !strings.HasPrefix(w.Code, "syscalls-") })
}
