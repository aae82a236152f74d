package app

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/store/record"
)

// noisy is a run of three cells, of which one is ten times as slow as the baseline and one slower by less than its
// values scatter. A block takes some seconds.
func noisy(noise float64) *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 5, Blocks: 20, Metrics: analysistest.Lifecycle()[:1],
		Noise: func(r *rand.Rand) float64 { return noise * r.NormFloat64() },
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "docker", Factor: 10}, {Name: "runc", Factor: 1.04}},
	})
}

func TestOutlook(t *testing.T) {
	for _, tt := range []struct {
		name       string
		noise      float64
		blocks     int
		budget     time.Duration
		text, hint string // parts; empty = no warning
	}{
		{"calm", 0.001, 500, 0, "", ""},
		{"few blocks", 0.1, 20, 0, "by its like, about 1 of 2 comparisons will be undecided after 20 blocks", "--blocks "},
		{"few blocks in a budget", 0.1, 5000, 10 * time.Second, "about 1 of 2 comparisons will be undecided after ", "--budget "},
		{"enough blocks", 0.1, 5000, 0, "", ""},
		{"too few for any", 0.1, 6, 0, "", ""}, // Undecidable says so
		{"blocks of minutes", 0.1, 20, 0, "about 1 of 2 comparisons", "'tare doctor' shows what disturbs this machine"},
	} {
		r := noisy(tt.noise)
		plan := r.Header.Plan
		plan.MaxBlocks, plan.Budget = tt.blocks, tt.budget
		if tt.name == "blocks of minutes" {
			for i := range r.Samples {
				r.Samples[i].Began = r.Header.Began.Add(time.Duration(i) * 5 * time.Minute)
			}
		}
		w := Outlook(plan, r, "its like")
		switch {
		case w == nil && tt.text != "":
			t.Errorf("%s: no warning, want %q", tt.name, tt.text)
		case w != nil && (tt.text == "" || !strings.Contains(w.Text, tt.text) || !strings.Contains(w.Hint, tt.hint)):
			t.Errorf("%s: %q → %q\nwant %q → %q", tt.name, w.Text, w.Hint, tt.text, tt.hint)
		}
	}
}

// A run is judged by an earlier one of the same cells on the same machine that has ended, and by no other.
func TestEarlierOutlook(t *testing.T) {
	for name, change := range map[string]func(r *bench.Run){
		"the same":        func(*bench.Run) {},
		"another seed":    func(r *bench.Run) { r.Header.Plan.Seed++ },
		"another machine": func(r *bench.Run) { r.Header.Host.MachineID = "another" },
		"another cell":    func(r *bench.Run) { r.Header.Plan.Cells[2].Engine = "crun" },
		"not ended":       func(r *bench.Run) { r.End = nil },
	} {
		r, s := noisy(0.1), newStore(t)
		plan := r.Header.Plan
		plan.MaxBlocks = 20
		plan.Cells = append([]bench.Cell(nil), plan.Cells...)
		r.Header.Host.MachineID = host.Facts(fsRoot).MachineID
		change(r)
		if err := record.Copy(t.Context(), s, r); err != nil {
			t.Fatal(err)
		}
		want := name == "the same" || name == "another seed"
		if w := EarlierOutlook(t.Context(), s, plan); (w != nil) != want {
			t.Errorf("%s: %+v", name, w)
		}
	}
}
