package cli

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// Two machines of one name are two groups.
func TestGroupsOfHosts(t *testing.T) {
	group, err := grouping("host")
	if err != nil {
		t.Fatal(err)
	}
	of := func(machine string) string {
		return group(&bench.Header{Host: bench.HostFacts{Hostname: "debian", MachineID: machine}})
	}
	if one, other, again := of("5f1d"), of("77aa"), of("5f1d"); one == other || one != again {
		t.Errorf("groups %q, %q, %q", one, other, again)
	}
}
