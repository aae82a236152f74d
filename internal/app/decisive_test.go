package app

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// chance is how the text ends for three comparisons of each of two metrics.
const chance = ", but up to 6 comparisons need up to 9"

func TestUndecidable(t *testing.T) {
	h := analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 1, Warmup: 1, Metrics: analysistest.Lifecycle()[:2], // both primary
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "crun"}, {Name: "runc"}, {Name: "docker"}},
	}).Header
	for _, tt := range []struct {
		name          string
		blocks        int
		budget, block time.Duration
		text, hint    string // empty = no warning
	}{
		{"enough", 9, 0, 0, "", ""},
		{
			"one block less", 8, 0, 0, "possibly too few blocks for any verdict: 8 blocks" + chance,
			"use --blocks 9, or compare fewer cells",
		},
		{"never", 5, 0, 0, "too few blocks for any verdict: 5 blocks" + chance, "use --blocks 9, or compare fewer cells"},
		{"a budget of unknown worth", 500, 10 * time.Second, 0, "", ""},
		{"enough budget", 500, 10 * time.Second, time.Second, "", ""},
		{
			"too small a budget", 500, 10 * time.Second, 2 * time.Second,
			"too few blocks for any verdict: 4 blocks (of about 2s, in a budget of 10s)" + chance,
			"use --budget 30s, or compare fewer cells",
		},
		{
			"one block always", 7, time.Second, time.Minute,
			"too few blocks for any verdict: 1 block (of about 1m, in a budget of 1s)" + chance,
			"use --blocks 9 --budget 11m, or compare fewer cells",
		},
	} {
		plan := h.Plan
		plan.MaxBlocks, plan.Budget = tt.blocks, tt.budget
		w := Undecidable(plan, h.Metrics, 1, tt.block)
		switch {
		case w == nil && tt.text != "":
			t.Errorf("%s: no warning, want %q", tt.name, tt.text)
		case w != nil && (w.Text != tt.text || w.Hint != tt.hint):
			t.Errorf("%s: %q → %q\nwant %q → %q", tt.name, w.Text, w.Hint, tt.text, tt.hint)
		}
	}
	plan := h.Plan
	plan.Cells = plan.Cells[:1] // nothing is compared
	if w := Undecidable(plan, h.Metrics, 1, 0); w != nil {
		t.Errorf("one cell: %q", strings.TrimSpace(w.Text))
	}
}

// Hosts that measure together are compared with the first one, even if each has one cell.
func TestUndecidableTogether(t *testing.T) {
	h := analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 1, NoControl: true, Metrics: analysistest.Lifecycle()[:2],
		Cells: []analysistest.Cell{{Name: "docker"}},
	}).Header
	plan := h.Plan
	plan.MaxBlocks, plan.Budget = 100, 150*time.Second
	for _, tt := range []struct {
		hosts      int
		block      time.Duration
		text, hint string
	}{
		{1, 40 * time.Second, "", ""},
		{2, 0, "", ""},
		{2, 20 * time.Second, "", ""}, // 8 blocks for 2 comparisons, which take 7
		{
			2, 40 * time.Second, "too few blocks for any verdict: 4 blocks (of about 40s, in a budget of 2m 30s), but up to " +
				"2 comparisons need up to 7", "use --budget 5m, or compare fewer metrics: --primary",
		},
		{
			4, 25 * time.Second, "possibly too few blocks for any verdict: 6 blocks (of about 25s, in a budget of 2m 30s), " +
				"but up to 6 comparisons need up to 8", "use --budget 3m30s, or compare fewer metrics: --primary",
		},
	} {
		w := Undecidable(plan, h.Metrics, tt.hosts, tt.block)
		switch {
		case w == nil && tt.text != "":
			t.Errorf("%d hosts: no warning, want %q", tt.hosts, tt.text)
		case w != nil && (w.Text != tt.text || w.Hint != tt.hint):
			t.Errorf("%d hosts: %q → %q\nwant %q → %q", tt.hosts, w.Text, w.Hint, tt.text, tt.hint)
		}
	}
}

// TestLongestRun checks that the block under way when the budget is used up is counted.
func TestLongestRun(t *testing.T) {
	for _, tt := range []struct {
		blocks, warmup      int
		budget, block, want time.Duration
	}{
		{500, 1, 2 * time.Minute, 0, 2 * time.Minute},
		{500, 0, 0, 0, 0},
		{500, 0, 15 * time.Second, 10 * time.Second, 20 * time.Second},
		{500, 1, 15 * time.Second, 10 * time.Second, 20 * time.Second},
		{500, 1, time.Second, time.Minute, 2 * time.Minute}, // one block is always measured
		{3, 1, time.Minute, time.Second, 4 * time.Second},
		{3, 0, 0, time.Second, 3 * time.Second},
	} {
		plan := bench.Plan{Warmup: tt.warmup, MaxBlocks: tt.blocks, Budget: tt.budget}
		if got := LongestRun(plan, tt.block); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
