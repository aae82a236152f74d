package cli

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/app"
)

// What is no built-in engine is declared by its options, or by its name if it is used only where somebody names it.
func TestParseEngines(t *testing.T) {
	for flag, want := range map[string]struct {
		chosen   []string
		declared []app.Instance
	}{
		"native,docker": {chosen: []string{"native", "docker"}},
		"native,kubernetes": {
			chosen:   []string{"native", "kubernetes"},
			declared: []app.Instance{{Name: "kubernetes", Driver: "kubernetes", Options: map[string]string{}}},
		},
		"kubernetes,name=k,node=a": {
			chosen:   []string{"k"},
			declared: []app.Instance{{Name: "k", Driver: "kubernetes", Options: map[string]string{"node": "a"}}},
		},
		"kubernete": {chosen: []string{"kubernete"}},
	} {
		chosen, declared, err := parseEngines([]string{flag})
		if diff := cmp.Diff(want.declared, declared); err != nil || diff != "" || !slices.Equal(chosen, want.chosen) {
			t.Errorf("%s: %q, %v\n%s", flag, chosen, err, diff)
		}
	}
}
