package cli_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// One image under two names goes through everything, and every question has an
// answer for both, the same where it must be.
func TestOneImageUnderTwoNames(t *testing.T) {
	require(t, "docker")
	if _, err := exec.LookPath("/usr/sbin/nginx"); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	packed := filepath.Join(p.dir, "same.tar")
	p.must(t, "pack", "nginx", "-o", packed)
	var d report.Document
	decode(t, p.must(t, "run", "image", "host:nginx", "tar:"+packed, "--json", "--engine", "docker", "--blocks", "1", "--warmup", "0",
		"--no-control", "--param", "many.requests=2000", "--param", "rate.time=500ms").stdout, &d)
	seen := 0
	for _, m := range d.Metrics {
		if m.Role != bench.Primary {
			continue
		}
		seen++
		rows := m.Conditions[0].Rows
		if len(rows) != 2 || rows[0].N != 1 || rows[1].N != 1 {
			t.Errorf("%s: %+v", m.Name, rows)
			continue
		}
		exact := m.Name == "pull.unpacked"
		if a, b := *rows[0].Median, *rows[1].Median; a <= 0 || exact && a != b {
			t.Errorf("%s: %v and %v", m.Name, a, b)
		}
	}
	if seen != 10 || d.Metrics[0].Conditions[0].Rows[1].Cell != "tar:"+packed {
		t.Errorf("%d questions, the second cell is %q", seen, d.Metrics[0].Conditions[0].Rows[1].Cell)
	}
}
