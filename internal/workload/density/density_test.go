package density

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Whom each process serves: what is inside, what serves one container, and
// what serves them all. What tare itself runs belongs to nobody.
func TestPartsOf(t *testing.T) {
	const self, daemon = 50, 100
	tree := func(parents map[int]int) proc.Tree {
		var all []proc.Process
		for pid, parent := range parents {
			all = append(all, proc.Process{PID: pid, Parent: parent})
		}
		return proc.NewTree(all)
	}
	tests := []struct {
		name    string
		parents map[int]int
		daemons []int
		firsts  []int
		want    engineProcesses
	}{
		{
			"a daemon, its own daemon below it, shims beside them",
			map[int]int{daemon: 1, 101: daemon, 102: 101, 200: 1, 201: 200, 202: 201, 300: 1, 301: 300, self: 1, 51: self},
			[]int{daemon},
			[]int{201, 301},
			engineProcesses{daemons: []int{daemon, 101, 102}, helpers: []int{200, 300}, inside: []int{201, 202, 301}},
		},
		{
			"shims below the daemon",
			map[int]int{daemon: 1, 200: daemon, 201: 200, self: 1},
			[]int{daemon},
			[]int{201},
			engineProcesses{daemons: []int{daemon}, helpers: []int{200}, inside: []int{201}},
		},
		{
			"no daemon, containers are tare's own children",
			map[int]int{self: 1, 201: self, 202: self, 203: 202},
			nil,
			[]int{201, 202},
			engineProcesses{inside: []int{201, 202, 203}},
		},
		{
			"a monitor that serves two, as in a pod",
			map[int]int{200: 1, 201: 200, 202: 200, 203: 200, self: 1},
			nil,
			[]int{201, 202},
			engineProcesses{helpers: []int{200, 203}, inside: []int{201, 202}},
		},
	}
	for _, tt := range tests {
		got := engineProcessesOf(tree(tt.parents), tt.daemons, tt.firsts, self)
		sorted := cmpopts.SortSlices(func(a, b int) bool { return a < b })
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(engineProcesses{}), sorted, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestSumLeavesOutWhatHasEnded(t *testing.T) {
	own, err := sum([]int{os.Getpid()})
	if err != nil || own.PSS == 0 {
		t.Fatalf("%+v, %v", own, err)
	}
	both, err := sum([]int{1 << 22, os.Getpid()})
	if err != nil || both.PSS < own.PSS/2 {
		t.Errorf("with a process that does not exist: %+v, %v; without %+v", both, err, own)
	}
}

func TestParamsAreChecked(t *testing.T) {
	for _, p := range New().Params() {
		if err := p.Valid(p.Default); err != nil {
			t.Errorf("the default of %s: %v", p.Name, err)
		}
		for _, bad := range []string{"", "x", "-1", "1e99"} {
			if p.Valid(bad) == nil {
				t.Errorf("%s takes %q", p.Name, bad)
			}
		}
	}
}
