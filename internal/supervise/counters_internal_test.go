package supervise

import (
	"math"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// What went backward, of one process of several, is not known; the rest is.
func TestBackward(t *testing.T) {
	before := Counts{
		relayed: 3, limitStats: cgroup.LimitStats{
			LimitHits: 7, Blocks: map[string]cgroup.BlockLimit{"8:0 rbps": {Limit: 1, Done: 9}},
		},
	}
	after := Counts{
		age: 1, relayed: 2, calls: 5, limitStats: cgroup.LimitStats{
			LimitHits: 5, Blocks: map[string]cgroup.BlockLimit{"8:0 rbps": {Limit: 1, Done: 8}},
		},
	}
	all := []*Counts{after.since(&before), {age: 1, relayed: 10, calls: 1}}
	want := map[string]float64{
		Inside + "relay_time": math.NaN(), Inside + "memory_limit": math.NaN(), Inside + "block_limit": math.NaN(),
		SystemCalls: 6,
	}
	seen := 0
	for _, c := range counters() {
		v, ok := want[c.Name]
		if !ok {
			continue
		}
		seen++
		if got := c.over(all); got != v && !(math.IsNaN(got) && math.IsNaN(v)) {
			t.Errorf("%s = %v, want %v", c.Name, got, v)
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d counters are there", seen, len(want))
	}
}

func TestBusy(t *testing.T) {
	c := Counts{age: 4, tally: proc.Tally{UserTime: 3, SystemTime: 3}}
	if busy, known := c.Busy(); busy != 1.5 || !known {
		t.Errorf("Busy = %v, %t, want 1.5 CPUs", busy, known)
	}
	for _, c := range []Counts{{}, unknownCounts()} {
		if busy, known := c.Busy(); known {
			t.Errorf("Busy = %v of a process about which nothing is known", busy)
		}
	}
}
