package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// drift is a random walk that all hosts of a measurement share: some percent from block to block.
func drift(blocks int) func(*rand.Rand, int) float64 {
	random := rand.New(rand.NewPCG(7, 7))
	walk := make([]float64, blocks)
	for i := 1; i < blocks; i++ {
		walk[i] = walk[i-1] + 0.1*random.NormFloat64()
	}
	return func(_ *rand.Rand, block int) float64 { return walk[block] }
}

// together makes runs that were measured together on hosts, each slower by a factor's logarithm.
func together(seed uint64, shifts map[string]float64) (runs []*bench.Run) {
	const blocks = 30
	var hosts []string
	for host := range shifts {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	for i, host := range hosts {
		common := drift(blocks)
		run := analysistest.Run(analysistest.Shape{
			Seed: seed + uint64(i), Blocks: blocks, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 2}},
			Metrics: analysistest.Lifecycle()[:2],
			Block:   func(r *rand.Rand, block int) float64 { return common(r, block) + shifts[host] },
		})
		run.Header.Host.Hostname, run.Header.Host.MachineID, run.Header.Host.BootID = host, host, ""
		run.Header.Joint = &bench.Joint{ID: "joint", Host: host, Hosts: hosts}
		for k := range run.Samples { // blocks begin together, whatever they take
			s := &run.Samples[k]
			s.Began = analysistest.Epoch().Add(time.Duration(s.Trial.Block) * time.Minute)
		}
		runs = append(runs, run)
	}
	return runs
}

// What comes and goes for both hosts cancels out: a difference that is far smaller than the drift is
// found, with its size, and no difference is none.
func TestJointBlocksArePaired(t *testing.T) {
	for name, test := range map[string]struct {
		shift   float64
		verdict analysis.Verdict
	}{"no difference": {0, analysis.Same}, "5 % slower": {math.Log(1.05), analysis.Worse}} {
		t.Run(name, func(t *testing.T) {
			c := contrast(t, together(300, map[string]float64{"alpha": 0, "beta": test.shift})...)
			if c.Unit != analysis.UnitBlock || c.Groups[1].Name != "beta" {
				t.Fatalf("unit %s, groups %+v", c.Unit, c.Groups)
			}
			for _, m := range c.Metrics {
				for _, r := range m.Rows {
					got := r.Sides[1].Comparison
					truth := math.Exp(test.shift)
					if got.Pairs != 30 || math.Abs(got.Estimate/truth-1) > 0.03 || got.HalfWidth() > 0.03 {
						t.Errorf("%s %s: %+v, want ×%.3f of 30 pairs within 3 %%", m.Metric.Name, r.Cell, got, truth)
					}
					if test.shift > 0 && got.Verdict != test.verdict || test.shift == 0 && got.Verdict == analysis.Worse {
						t.Errorf("%s %s: verdict %s, want %s", m.Metric.Name, r.Cell, got.Verdict, test.verdict)
					}
				}
			}
			in := c.Metrics[0].Rows[1].Sides[1].InRun
			if math.Abs(in.Value-2) > 0.1 || math.Abs(in.Comparison.Estimate-1) > 0.05 {
				t.Errorf("in the runs: %v, %+v; want ×2 on both hosts", in.Value, in.Comparison)
			}
		})
	}
}

// Blocks that were not measured at the same time are no pairs, as after an interruption.
func TestJointBlocksApart(t *testing.T) {
	runs := together(310, map[string]float64{"alpha": 0, "beta": 0})
	for i := range runs[1].Samples {
		if s := &runs[1].Samples[i]; s.Trial.Block >= 20 {
			s.Began = s.Began.Add(time.Hour)
		}
	}
	c := contrast(t, runs...)
	if got := c.Metrics[0].Rows[0].Sides[1].Comparison; got.Pairs != 20 {
		t.Errorf("%d pairs, want the 20 blocks that began together", got.Pairs)
	}
	for i := range runs[1].Samples {
		runs[1].Samples[i].Began = runs[1].Samples[i].Began.Add(time.Hour)
	}
	if _, err := analysis.Compare(runs, analysis.CompareOptions{}); err != nil {
		return // nothing is left to compare
	}
	t.Error("runs without one common block are compared")
}

// Blocks that are too few for any difference are told, with how to get more, and none are where a difference can be
// told. Few values of one cell concern its comparisons alone.
func TestJointBlocksTooFew(t *testing.T) {
	const enough = 8 // of 6 comparisons: 2/2⁸ is less than 5 %/6
	runs := func(blocks int, reason bench.StopReason) []*bench.Run {
		all := together(330, map[string]float64{"alpha": 0, "beta": math.Log(2)})
		for _, run := range all {
			run.Samples = slices.DeleteFunc(run.Samples, func(s bench.Sample) bool { return s.Trial.Block >= blocks })
			run.End.Reason = reason
		}
		return all
	}
	find := func(c *analysis.Contrast, code string) (found bench.Warning) {
		for _, w := range c.Warnings {
			if w.Code == code {
				found = w
			}
		}
		return found
	}
	c := contrast(t, runs(enough, bench.StopBudget)...)
	if got := c.Metrics[0].Rows[0].Sides[1].Comparison; got.Verdict != analysis.Worse {
		t.Errorf("%d blocks: %+v", enough, got)
	}
	if w := find(c, analysis.CodeFewRuns); w.Code != "" || c.Trust.Needed != 0 {
		t.Errorf("%d blocks are said to be too few: %q, %d needed", enough, w.Text, c.Trust.Needed)
	}
	for reason, hint := range map[bench.StopReason]string{
		bench.StopBlocks: "measure again with --blocks 8 or more",
		bench.StopBudget: "measure again with --blocks 8 --budget ",
	} {
		c = contrast(t, runs(enough-1, reason)...)
		w := find(c, analysis.CodeFewRuns)
		if c.Trust.Needed != enough || c.Trust.Level != analysis.Low || !strings.HasPrefix(w.Hint, hint) ||
			!strings.Contains(w.Text, "with 7 blocks that all hosts measured at the same time and 6 comparisons, no difference") {
			t.Errorf("one block less, and the run ended for %s: %+v, %+v", reason, w, c.Trust)
		}
	}
	part := runs(20, bench.StopBudget)
	for i := range part[1].Samples {
		if s := &part[1].Samples[i]; s.Trial.Block >= 5 && s.Trial.Cell == 1 {
			s.Values = slices.Clone(s.Values)
			s.Values[0] = math.NaN()
		}
	}
	c = contrast(t, part...)
	w := find(c, analysis.CodeFewPairs)
	if !strings.Contains(w.Text, "the fewest 5, and with 6 comparisons a difference takes 8") ||
		find(c, analysis.CodeFewRuns).Code != "" || c.Trust.Needed != 0 || c.Trust.Level != analysis.Medium {
		t.Errorf("one cell has few values: %+v, %+v", w, c.Trust)
	}
}

// Runs of different measurements are no pairs, whatever their blocks are numbered.
func TestJointWithOthers(t *testing.T) {
	runs := together(320, map[string]float64{"alpha": 0, "beta": 0})
	runs[1].Header.Joint.ID = "another"
	if c := contrast(t, runs...); c.Unit != analysis.UnitRun {
		t.Errorf("unit %s, want runs", c.Unit)
	}
}

// In groups of several hosts each host counts once, however many runs it has.
func TestHostIsTheUnit(t *testing.T) {
	var runs []*bench.Run
	for i, host := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"} {
		shift := 0.0
		if host[0] == 'b' {
			shift = math.Log(1.3)
		}
		for k := range 3 {
			run := runOnHost(uint64(400+10*i+k), host, shift+0.01*float64(i%4))
			run.Header.Host.OS = "system " + host[:1]
			runs = append(runs, run)
		}
	}
	byOS := analysis.CompareOptions{Group: func(h *bench.Header) string { return h.Host.OS }}
	c, err := analysis.Compare(runs, byOS)
	if err != nil {
		t.Fatal(err)
	}
	side := c.Metrics[0].Rows[0].Sides[1]
	if c.Unit != analysis.UnitHost || side.N != 4 || len(side.Each) != 4 {
		t.Errorf("unit %s, %d values, want 4 hosts", c.Unit, side.N)
	}
	if math.Abs(side.Comparison.Estimate-1.3) > 0.05 {
		t.Errorf("estimate ×%v, want ×1.3", side.Comparison.Estimate)
	}
	// One host against three is no comparison of kinds.
	few, err := analysis.Compare(slices.Concat(runs[:3], runs[12:21]), byOS)
	if err != nil {
		t.Fatal(err)
	}
	got := few.Metrics[0].Rows[0].Sides[1].Comparison
	if got.Verdict != analysis.TooFewRuns && got.Verdict != analysis.Unclear {
		t.Errorf("one host against three: verdict %s", got.Verdict)
	}
	if !slices.Contains(contrastCodes(few), analysis.CodeFewRuns) {
		t.Errorf("nothing says that the hosts are too few: %v", contrastCodes(few))
	}
	for c, want := range map[*analysis.Contrast]string{
		c: "so this tells groups of machines apart; ",
		few: "and one machine is all there is of system a: this tells how it differs from the others, and nothing about " +
			"its kind, such as its operating system; ",
	} {
		if got := notApart(t, c); !strings.HasPrefix(got, "each value is one host, "+want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// One machine of each kind never tells anything about the kinds, whether they measured at the same times or not.
func TestNoClaimAboutSystems(t *testing.T) {
	runs := together(500, map[string]float64{"debian": 0, "ubuntu": math.Log(1.2)})
	apart := []*bench.Run{
		runOnHost(510, "debian", 0), runOnHost(511, "ubuntu", 0.2), runOnHost(512, "debian", 0), runOnHost(513, "ubuntu", 0.2),
	}
	for i, run := range slices.Concat(runs, apart) {
		run.Header.Host.OS = []string{"Debian 13", "Ubuntu 24.04"}[i%2]
	}
	for unit, runs := range map[analysis.Unit][]*bench.Run{analysis.UnitBlock: runs, analysis.UnitRun: apart} {
		c, err := analysis.Compare(runs, analysis.CompareOptions{Group: func(h *bench.Header) string { return h.Host.OS }})
		if err != nil || c.Unit != unit {
			t.Fatalf("%v, unit %s, want %s", err, c.Unit, unit)
		}
		doubt := "one machine of each system, which tells nothing about the systems themselves"
		if unit == analysis.UnitRun { // which are two of each
			doubt = "too few runs for a verdict"
		}
		if c.Trust.Why != doubt {
			t.Errorf("unit %s: trust %q, want %q", unit, c.Trust.Why, doubt)
		}
		text := notApart(t, c)
		for _, want := range []string{
			"how these machines differed", "such as an operating system", "system (Debian 13, Ubuntu 24.04)",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("unit %s: %q lacks %q", unit, text, want)
			}
		}
	}
}

// notApart is what a comparison says that it can carry.
func notApart(t *testing.T, c *analysis.Contrast) string {
	t.Helper()
	i := slices.IndexFunc(c.Warnings, func(w bench.Warning) bool { return w.Code == analysis.CodeNotApart })
	if i < 0 {
		t.Fatalf("no warning: %v", contrastCodes(c))
	}
	return c.Warnings[i].Text
}

// What has many names and is one machine, such as one in whose containers runs were measured, is one host, and tells
// nothing about a kind.
func TestOneMachineOfManyNames(t *testing.T) {
	byOS := analysis.CompareOptions{Group: func(h *bench.Header) string { return h.Host.OS }}
	for name, call := range map[string]func(h *bench.HostFacts, kind string, i int){
		"containers": func(h *bench.HostFacts, kind string, _ int) { h.MachineID, h.BootID = "", "boot of "+kind },
		"renamed":    func(h *bench.HostFacts, kind string, _ int) { h.MachineID, h.BootID = "machine of "+kind, "" },
		// Each run has only its neighbours' machine or boot: all of them are joined by those in between.
		"chain": func(h *bench.HostFacts, kind string, i int) {
			h.MachineID, h.BootID = fmt.Sprint(kind, i/2), fmt.Sprint(kind, (i+1)/2)
		},
		"chain, its middle last": func(h *bench.HostFacts, kind string, i int) {
			at := []int{0, 1, 3, 4, 2}[i]
			h.MachineID, h.BootID = fmt.Sprint(kind, at/2), fmt.Sprint(kind, (at+1)/2)
		},
	} {
		var runs []*bench.Run
		for i := range 5 {
			for k, kind := range []string{"Debian 13", "Ubuntu 24.04"} {
				run := runOnHost(uint64(520+10*k+i), fmt.Sprint("host", i, k), 0.2*float64(k))
				run.Header.Host.OS = kind
				call(&run.Header.Host, kind, i)
				runs = append(runs, run)
			}
		}
		c, err := analysis.Compare(runs, byOS)
		if err != nil {
			t.Fatal(err)
		}
		if text := notApart(t, c); c.Unit != analysis.UnitRun || !strings.Contains(text, "how these machines differed") {
			t.Errorf("%s: unit %s, %q", name, c.Unit, text)
		}
		other := runOnHost(600, "other", 0)
		other.Header.Host.OS = "Debian 13"
		c, err = analysis.Compare(append(runs, other), byOS)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Metrics[0].Rows[0].Sides[0].N; c.Unit != analysis.UnitHost || n != 2 {
			t.Errorf("%s, and another machine: unit %s, %d values; want 2 hosts", name, c.Unit, n)
		}
	}
}
