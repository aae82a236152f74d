package cli_test

import (
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	p := newTestEnv(t)
	packed := filepath.Join(p.dir, "same.tar")
	p.must(t, "pack", "nginx", "-o", packed)
	var d report.Document
	r := p.must(t, "run", "image", "host:nginx", "tar:"+packed, "--json", "--engine", "docker", "--blocks", "1",
		"--warmup", "0", "--no-control", "--param", "few.repeat=1", "--param", "many.requests=2000",
		"--param", "rate.time=1s", "--washout", "off")
	decode(t, r.stdout, &d)
	if strings.Contains(r.stderr, "only image") {
		t.Errorf("two images are said to be one: %s", r.stderr)
	}
	seen, answered := 0, fewest(d, "rate.requests")
	for _, m := range d.Metrics {
		if m.Role != bench.Primary {
			continue
		}
		seen++
		rows := m.Conditions[0].Rows
		if m.Name == "rate.time.p99" && (answered < 1000 || slices.ContainsFunc(d.Warned, isRateMissed)) {
			continue // this machine is too busy for a rate, or for so many answers that one has a p99
		}
		if len(rows) != 2 || rows[0].N != 1 || rows[1].N != 1 {
			t.Errorf("%s: %+v; %+v", m.Name, rows, d.Warned)
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

// fewest is the least median of the cells; 0 where one has none.
func fewest(d report.Document, metric string) float64 {
	least := math.Inf(1)
	for _, m := range d.Metrics {
		if m.Name == metric {
			for _, r := range m.Conditions[0].Rows {
				if r.Median == nil {
					return 0
				}
				least = min(least, *r.Median)
			}
		}
	}
	return least
}

func isRateMissed(w report.Warning) bool { return w.Code == "rate-missed" }

// An image that serves nothing fails where it would have to, and has its values in what
// it can do; the other one has all of them.
func TestAnImageThatServesNothing(t *testing.T) {
	require(t, "docker")
	if _, err := exec.LookPath("/usr/sbin/nginx"); err != nil {
		t.Fatal(err)
	}
	p := newTestEnv(t)
	var d report.Document
	result := p.tare(t, "run", "image", "host:nginx", "host:true", "--json", "--engine", "docker", "--blocks", "1",
		"--warmup", "0", "--no-control", "--param", "few.repeat=1", "--param", "many.requests=500",
		"--param", "rate.time=2s", "--washout", "off")
	if result.code != 3 {
		t.Errorf("exit code %d, want 3\n%s", result.code, result.stderr)
	}
	decode(t, result.stdout, &d)
	for _, m := range d.Metrics {
		if m.Role != bench.Primary {
			continue
		}
		rows := m.Conditions[0].Rows
		want := 0
		if strings.HasPrefix(m.Name, "pull.") {
			want = 1
		}
		if len(rows) != 2 || rows[0].N != 1 || rows[1].N != want {
			t.Errorf("%s: %+v; %+v", m.Name, rows, d.Warned)
		}
	}
	for _, part := range []string{"few", "many", "rate"} {
		if !slices.ContainsFunc(d.Warned, func(w report.Warning) bool {
			// parts with one reason are told together
			which, why, ok := strings.Cut(w.Text, " failed in 1 of 1 trial of host:true and ")
			told := strings.FieldsFunc(which, func(r rune) bool { return r == ' ' || r == ',' })
			return ok && slices.Contains(told, part) && strings.Contains(why, "the process inside ended")
		}) {
			t.Errorf("nobody says that %s failed: %v", part, d.Warned)
		}
	}
}
