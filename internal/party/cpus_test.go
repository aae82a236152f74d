package party_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/party"
)

func TestCPUs(t *testing.T) {
	for list, want := range map[string][]int{
		"1": {1}, "2-3": {2, 3}, "0-2,5,7-8": {0, 1, 2, 5, 7, 8},
		"": nil, ",": nil, "x": nil, "0-": nil, "-1": nil, "3-2": nil, "0,x": nil, "0-65537": nil, "99999999999999999999": nil,
	} {
		got := party.CPUs(list)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", list, diff)
		}
		if again := party.Ranges(want); want != nil && again != list {
			t.Errorf("%v: %q, want %q", want, again, list)
		}
	}
	if got := party.Ranges(nil); got != "" {
		t.Errorf("no CPUs are %q", got)
	}
}
