package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/report"
)

// What one runtime does more than another is told first, and can be shown again in every form.
func TestExplain(t *testing.T) {
	t.Parallel() // it asserts no time
	require(t, "runc")
	p := newTestEnv(t)
	quick, slow := p.runtime(t, "runc.start.0ms"), p.runtime(t, "runc.start.20ms")
	engines := []string{"oci,name=slow,binary=" + slow, "oci,name=quick,binary=" + quick}
	s := p.tare(t, append([]string{"explain", "--budget", partTime("10s", "20s")}, engines...)...)
	if s.code == 4 && os.Geteuid() != 0 {
		t.Skip("nothing can be traced here: " + s.stderr)
	}
	if s.code != 0 {
		t.Fatalf("exit code %d: %s", s.code, s.stderr)
	}
	for _, want := range []string{
		"slow − quick = ", "timed without tracing: ", "slow: ", "quick: ", "; traced trials took ", "█", " --open",
		" --format trace", "saved as ",
	} {
		if !strings.Contains(s.stdout, want) {
			t.Errorf("no %q in:\n%s", want, s.stdout)
		}
	}
	var shown report.Timelines
	decode(t, p.must(t, "show", "last", "--timeline", "--json").stdout, &shown)
	if len(shown.Differences) != 1 || len(shown.Cells) != 2 {
		t.Fatalf("%d differences of %d cells", len(shown.Differences), len(shown.Cells))
	}
	checkTimelines(t, &shown)
	var d report.Document
	decode(t, p.must(t, "show", "last", "--json").stdout, &d)
	if d.Timelines == nil || len(d.Timelines.Cells) != 2 {
		t.Errorf("the report has no timelines: %+v", d.Timelines)
	}
	if again := p.must(t, "show", "last", "--timeline", "quick", "--vs", "slow").stdout; !strings.Contains(again, "quick − slow = ") {
		t.Errorf("the other way round:\n%s", again)
	}
	if !json.Valid([]byte(p.must(t, "export", "last", "--format", "trace").stdout)) {
		t.Error("the trace is not JSON")
	}
	page := filepath.Join(p.dir, "page.html")
	p.must(t, "report", "last", "-o", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "where the time of one trial went") {
		t.Errorf("the page has no picture of it: %v", err)
	}
}

// checkTimelines checks that the parts of the timelines are the whole, and that each runtime is found in its cell
// alone. How long it takes depends on what else the machine does.
func checkTimelines(t *testing.T, shown *report.Timelines) {
	t.Helper()
	checkSums(t, shown)
	for _, c := range shown.Cells {
		for cell, role := range map[string]string{"slow": "runc.start.20ms", "quick": "runc.start.0ms"} {
			found := slices.ContainsFunc(c.Rows, func(r report.TimelineRow) bool { return r.Role == role && r.Kind == "on CPU" })
			if found != (cell == c.Cell) {
				t.Errorf("%s found in %s: %v", role, c.Cell, found)
			}
		}
	}
}

// checkSums checks that the rows of each cell, and of the difference, are the whole.
func checkSums(t *testing.T, shown *report.Timelines) {
	t.Helper()
	for _, c := range shown.Cells {
		sum := 0.0
		for _, r := range c.Rows {
			sum += r.Mean.Value
		}
		if c.Value == nil || c.Complete == 0 || !near(sum, c.Value.Value, 1e-6) {
			t.Errorf("%s: %d complete trials, rows sum to %v: %+v", c.Cell, c.Complete, sum, c)
		}
	}
	d := &shown.Differences[0]
	sum := d.Rest
	for _, r := range d.Rows {
		sum += r.Mean.Value
	}
	if !near(sum, d.Mean.Value, 1e-6) || d.Blocks == 0 {
		t.Errorf("rows and rest sum to %v: %+v", sum, d)
	}
	if d.Timed == nil || d.TimedBlocks < d.Blocks || d.CellCost == nil || d.BaseCost == nil {
		t.Errorf("what timed trials differ by, or what tracing costs, is missing: %+v", d)
	}
}

func near(a, b, by float64) bool { return a-b < by && b-a < by }

// Other times of a container's life are explained as its start is: what a runtime does 20 ms later is found there.
func TestPlantedLater(t *testing.T) {
	require(t, "runc")
	planted, budget := map[string]string{"stop": "kill", "exec": "exec", "ready": "start"}, "10s"
	if testing.Short() {
		planted, budget = map[string]string{"exec": "exec"}, "5s"
	}
	for of, command := range planted {
		t.Run(of, func(t *testing.T) {
			p := newTestEnv(t)
			quick, slow := p.runtime(t, "runc."+command+".0ms"), p.runtime(t, "runc."+command+".20ms")
			engines := []string{"oci,name=slow,binary=" + slow, "oci,name=quick,binary=" + quick}
			s := p.tare(t, append([]string{"explain", "--of", of, "--budget", budget, "--json"}, engines...)...)
			if s.code == 4 && os.Geteuid() != 0 {
				t.Skip("nothing can be traced here: " + s.stderr)
			}
			if s.code != 0 {
				t.Fatalf("exit code %d: %s", s.code, s.stderr)
			}
			var shown report.Timelines
			decode(t, s.stdout, &shown)
			if len(shown.Differences) != 1 || len(shown.Cells) != 2 {
				t.Fatalf("%d differences of %d cells", len(shown.Differences), len(shown.Cells))
			}
			checkSums(t, &shown)
			var again report.Timelines
			decode(t, p.must(t, "show", "last", "--timeline", "--json").stdout, &again)
			if again.Metric != shown.Metric {
				t.Errorf("explained is %s, and shown without --of is %s", shown.Metric, again.Metric)
			}
			for _, c := range shown.Cells {
				if want := c.Complete + c.Incomplete; c.Complete*2 < want {
					t.Errorf("%s: %d of %d trials are complete", c.Cell, c.Complete, want)
				}
			}
			// It is busy for 20 ms by the clock, beside its start. How long it waits for a CPU meanwhile is due to
			// what else the machine does.
			if did, waited := timesOf(&shown, filepath.Base(slow)); did+waited < 0.02 || did > 0.05 {
				t.Errorf("of 20 ms, %.1f are found in %s, and %.1f for a CPU", did*1e3, filepath.Base(slow), waited*1e3)
			}
			if did, _ := timesOf(&shown, filepath.Base(quick)); did == 0 || did > 0.02 {
				t.Errorf("%.1f ms are found in %s", did*1e3, filepath.Base(quick))
			}
			if got := p.tare(t, "show", "last", "--timeline", "--of", of+"x"); got.code != 2 || !strings.Contains(got.stderr, "it has traced") {
				t.Errorf("what was not traced: exit code %d\n%s", got.code, got.stderr)
			}
		})
	}
}

// timesOf is how long programs of a role are on the path, in seconds, and how long they wait for a CPU there.
func timesOf(shown *report.Timelines, role string) (did, waited float64) {
	for _, c := range shown.Cells {
		for _, r := range c.Rows {
			switch {
			case r.Role != role:
			case r.Kind == string(timeline.Ready):
				waited += r.Mean.Value
			default:
				did += r.Mean.Value
			}
		}
	}
	return did, waited
}
