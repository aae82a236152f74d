package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// How many blocks would do depends on whether the run has ended: what has ended is looked at once more.
func TestBlocksThatSettle(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 5, Blocks: 12, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 1.03}},
	})
	for _, ended := range []bool{true, false} {
		if !ended {
			run.End = nil
		}
		r, err := analysis.Analyze(run, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := New(r, nil).Metrics[0].Conditions[0].Rows[1].Effect
		want := e.Blocks
		if ended {
			want = e.Extended
		}
		if e.Verdict != string(analysis.Unclear) || e.Blocks == e.Extended || e.needed != want {
			t.Errorf("ended %v: %s, %d blocks, %d extended, told %d", ended, e.Verdict, e.Blocks, e.Extended, e.needed)
		}
	}
}

// What an extension takes is told with a number of blocks that can be reached, and with the length that a block of
// this run had, warm-up included.
func TestStepsOfAnExtension(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 5, Blocks: 6, Warmup: 2, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 1.03}, {Name: "c"}},
	})
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := New(r, nil)
	want := Step{
		"tare resume " + run.Header.ID + " --budget " + analysis.BudgetFor((12-6)*5/4, r.BlockTime),
		"should make verdicts possible: extended, it needs at least 12 blocks",
	}
	if got := d.Next[0]; got != want || d.Trust.Needed != 7 {
		t.Errorf("%+v after %d blocks are needed, want %+v", got, d.Trust.Needed, want)
	}
}

// What undecided comparisons need is counted in blocks, also in those that lost a trial, and told for as long as there
// is something to decide.
func TestUndecided(t *testing.T) {
	shape := analysistest.Shape{
		Seed: 5, Blocks: 40, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 1.01}, {Name: "c", Factor: 2}},
		Noise: func(r *rand.Rand) float64 { return 0.1 * r.NormFloat64() },
	}
	for _, lost := range []int{0, 15} {
		run := analysistest.Run(shape)
		for i := range run.Samples {
			if s := &run.Samples[i]; s.Trial.Block < lost && s.Trial.Cell == 0 {
				s.Outcome, s.Values, s.Operation, s.Reason = bench.Failed, nil, "start", "no such device"
			}
		}
		r, err := analysis.Analyze(run, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := New(r, nil)
		trust := d.Trust
		if trust.Undecided != 1 || trust.Compared != 2 || trust.Pairs != 40-lost || len(trust.Settle) != 2 {
			t.Fatalf("%d lost: %+v", lost, trust)
		}
		if want := analysis.BudgetFor(trust.Settle[0]-40, r.BlockTime); trust.SettleBudgets[0] != want {
			t.Errorf("%d lost: %d blocks take another %s, want %s", lost, trust.Settle[0], trust.SettleBudgets[0], want)
		}
		want := fmt.Sprintf("1 of 2 comparisons undecided after %d blocks; about ", 40-lost)
		if !strings.Contains(d.Screen.Trust, want) {
			t.Errorf("%d lost: %q, want %q", lost, d.Screen.Trust, want)
		}
	}
	run := analysistest.Run(shape)
	run.Header.Imported = true
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := New(r, nil).Trust; got.SettleBudgets != nil || len(got.Settle) != 2 {
		t.Errorf("a run that cannot be extended: %+v", got)
	}
}

// One cell alone has nothing to be trusted or not, but what speaks against its values is told.
func TestNothingCompared(t *testing.T) {
	for blocks, want := range map[int]string{
		20: "Nothing is compared; 20 blocks",
		3:  "Nothing is compared; too few blocks for any interval; 3 blocks",
	} {
		r, err := analysis.Analyze(analysistest.Run(analysistest.Shape{
			Seed: 9, Blocks: blocks, Cells: []analysistest.Cell{{Name: "docker"}},
		}), analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := New(r, nil)
		if d.Trust.Level != analysis.NoClaim || d.Screen.Trust != want {
			t.Errorf("%s: %q, want %q", d.Trust.Level, d.Screen.Trust, want)
		}
	}
}

// What would be enough is told in what one value of a comparison is.
func TestEnoughForAVerdict(t *testing.T) {
	for of, want := range map[analysis.Unit]string{
		analysis.UnitRun:   "Trust: low: too few; 11 runs of each would be enough",
		analysis.UnitHost:  "Trust: low: too few; 11 hosts of each would be enough",
		analysis.UnitBlock: "Trust: low: too few; 11 blocks would be enough",
	} {
		d := &Document{
			Kind: Comparison, Unit: string(of), Trust: &Trust{Level: analysis.Low, Reason: "too few", Needed: 11},
		}
		if got := d.trustText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Commands name a run as its user can find it: by its name, by the short form of its ID, or by that.
func TestCommandsNameTheRun(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 1, Blocks: 8, Cells: []analysistest.Cell{{Name: "a"}}})
	short := func(id string) string { return "short-" + id[len(id)-2:] }
	for _, tt := range []struct {
		name, want string
		short      Short
	}{
		{"", "tare show " + run.Header.ID + " --all", nil},
		{"", "tare show short-01 --all", short},
		{"mine", "tare show mine --all", short},
	} {
		run.Header.Name = tt.name
		r, err := analysis.Analyze(run, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := New(r, tt.short).Next[0].Command; got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
