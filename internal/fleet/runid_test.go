package fleet_test

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
)

// Every node has an ID of its own in each pass, whatever it is called.
func TestRunID(t *testing.T) {
	const id = "20261126-225000-abcd"
	seen := map[string]string{}
	long := strings.Repeat("a", 40)
	for _, node := range []string{"web-1", "web.1", "web_1", "", "../x", long, long + "a", "2-web-1"} {
		for pass := 1; pass <= 2; pass++ {
			run := fleet.RunID(id, pass, node)
			if err := bench.ValidRunID(run); err != nil {
				t.Errorf("node %q: %v", node, err)
			}
			if !strings.HasPrefix(run, id) || seen[run] != "" {
				t.Errorf("node %q, pass %d: %s, which is also that of %q", node, pass, run, seen[run])
			}
			seen[run] = node
		}
	}
	if got := fleet.RunID(id, 2, "web-1"); got != id+"-2-web-1" {
		t.Errorf("RunID = %s", got)
	}
}
