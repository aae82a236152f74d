package proc_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// This process uses at least what it just used, and has memory.
func TestUse(t *testing.T) {
	debug.FreeOSMemory() // else Go gives back older memory meanwhile, or takes it again
	before, err := proc.UsageOf("/", os.Getpid())
	if err != nil || before.PSS < 1<<20 {
		t.Fatalf("Use = %+v, %v, want at least 1 MiB", before, err)
	}
	block := make([]byte, 96<<20)
	for began := time.Now(); time.Since(began) < 60*time.Millisecond; {
		for i := range block {
			block[i]++
		}
	}
	after, err := proc.UsageOf("/", os.Getpid())
	runtime.KeepAlive(block) // else its memory may be given back before it is counted
	if err != nil || after.PSS-before.PSS < 90<<20 || after.CPU-before.CPU < 20*time.Millisecond {
		t.Errorf("after 96 MiB and some 60 ms of work: %+v, %v, before %+v", after, err, before)
	}
	if a, b := before.Alone(), after.Alone(); b-a < 90<<20 || b < after.PSS || b > after.PSS+256<<20 {
		t.Errorf("with files in full %d and %d bytes, in proportion %d and %d", a, b, before.PSS, after.PSS)
	}
	// A second process with the same files has memory of its own, and no further files.
	if both := after.Plus(after); both.Alone() >= 2*after.Alone() || both.Alone() < after.Alone()+90<<20 {
		t.Errorf("twice %d bytes is %d", after.Alone(), both.Alone())
	}
	if _, err := proc.UsageOf(tree, 99); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Use of no process: %v, want fs.ErrNotExist", err)
	}
}

func TestTree(t *testing.T) {
	// 1 has a daemon (10) with a child (11), a shim (20) with a container (21, 22), and this (30) with 31.
	var all []proc.Process
	for pid, parent := range map[int]int{1: 0, 10: 1, 11: 10, 20: 1, 21: 20, 22: 21, 30: 1, 31: 30} {
		all = append(all, proc.Process{PID: pid, Parent: parent})
	}
	tree := proc.NewTree(all)
	if diff := cmp.Diff([]int{20, 21, 22}, tree.Descendants(20, nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{20}, tree.Descendants(20, map[int]bool{21: true})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{21, 20}, tree.Ancestors(22, nil)); diff != "" {
		t.Error(diff)
	}
	if got := tree.Ancestors(31, map[int]bool{30: true}); len(got) != 0 {
		t.Errorf("above 31 is %d, want nothing but what is in the way", got)
	}
	if got := tree.Descendants(99, nil); len(got) != 0 {
		t.Errorf("below no process is %d", got)
	}
	loop := proc.NewTree([]proc.Process{{PID: 5, Parent: 6}, {PID: 6, Parent: 5}})
	if above, below := loop.Ancestors(5, nil), loop.Descendants(5, nil); len(above) > 2 || len(below) > 4 {
		t.Errorf("a loop of parents gives %d above and %d below", above, below)
	}
}
