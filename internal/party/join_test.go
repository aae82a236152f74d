package party_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/party"
)

// What happened in parts of a trial adds up; a share of the time does not, nor
// how many filters there are.
func TestJoin(t *testing.T) {
	for name, want := range map[string]float64{
		"inside.page_faults": 40, "inside.throttled": 20, "inside.seccomp_filters": 30, "another": 40,
	} {
		if got := party.Join(name, []float64{10, 30}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
