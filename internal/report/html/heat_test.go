package html_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// TestHeat checks that a grid has a map for each cell, that what is confirmed has a colour by its size and
// direction, and that what is not has none.
func TestHeat(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 4, Blocks: 20, NoControl: true, Cells: []analysistest.Cell{{Name: "base"}, {Name: "other"}, {Name: "third"}},
		Grid: []bench.Factor{
			{Name: "scale", Levels: []string{"1", "10"}, Condition: true},
			{Name: "clients", Levels: []string{"1", "8", "64"}, Condition: true},
		},
		Metrics: analysistest.Lifecycle()[:1], Noise: func(r *rand.Rand) float64 { return 0.01 * r.NormFloat64() },
	})
	factors := map[string]float64{
		"scale=1,clients=1": 1.05, "scale=1,clients=8": 1.3, "scale=1,clients=64": 2, "scale=10,clients=1": 0.95,
		"scale=10,clients=8": 0.8, "scale=10,clients=64": 0.4,
	}
	for i := range run.Samples {
		if c := run.Header.Plan.Cells[run.Samples[i].Trial.Cell]; c.Name == "other" {
			run.Samples[i].Values[0] *= factors[c.Condition]
		}
	}
	page := string(write(t, document(t, run)))
	_, other, ok := strings.Cut(page, "of other against base, by clients")
	other, third, okToo := strings.Cut(other, "of third against base, by clients")
	if !ok || !okToo {
		t.Fatal("there is no map for each cell")
	}
	classes := regexp.MustCompile(`<td class="(h-?\d)">`)
	var got []string
	for _, m := range classes.FindAllStringSubmatch(other, -1) {
		got = append(got, m[1])
	}
	if want := []string{"h1", "h2", "h3", "h-1", "h-2", "h-3"}; !slices.Equal(got, want) {
		t.Errorf("colours %q, want %q", got, want)
	}
	third, _, _ = strings.Cut(third, "</table>")
	if classes.MatchString(third) {
		t.Error("a cell that does not differ has a colour")
	}
	if n := strings.Count(third, `scope="row"`); n != 2 {
		t.Errorf("%d rows, want one for each scale", n)
	}
}
