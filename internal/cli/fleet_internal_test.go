package cli

import (
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/fleet/cluster"
)

// A part of an ID means a fleet only if it is that of no other.
func TestFleetsCalled(t *testing.T) {
	found := make([]cluster.Found, 3)
	for i, id := range []string{"20261126-1200-abcd", "20261126-1200-efgh", "20261126-1200-abcd-x"} {
		found[i].Plan.Fleet.ID = id
	}
	for name, want := range map[string]string{
		"abcd": "20261126-1200-abcd", "efgh": "20261126-1200-efgh", "20261126-1200-abcd": "20261126-1200-abcd",
		"20261126-1200-abcd-": "20261126-1200-abcd-x", "2026": "", "": "", "1200": "",
	} {
		ids, err := fleetsCalled(found, []string{name})
		if want == "" && err == nil || want != "" && !slices.Equal(ids, []string{want}) {
			t.Errorf("%q: %q, %v; want %q", name, ids, err, want)
		}
	}
}
