package proc_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// What this process does is counted for it.
func TestCount(t *testing.T) {
	before, err := proc.TallyOf("/", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const pages, reads = 2000, 50
	block := make([]byte, pages*os.Getpagesize())
	for i := 0; i < len(block); i += os.Getpagesize() {
		block[i] = 1
	}
	for range reads {
		if _, err := os.ReadFile("/proc/self/comm"); err != nil {
			t.Fatal(err)
		}
	}
	after, err := proc.TallyOf("/", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Reads - before.Reads; n < reads {
		t.Errorf("%v system calls that read, want at least %d", n, reads)
	}
	if err := exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=5000").Run(); err != nil {
		t.Fatal(err)
	}
	waited, err := proc.TallyOf("/", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if n := waited.Reads - after.Reads; n < 5000 {
		t.Errorf("%v system calls that read, with those of a child that made 5000", n)
	}
	if n := after.PageFaults - before.PageFaults; n < pages/512 { // huge pages are of 512
		t.Errorf("%v page faults", n)
	}
	if !(after.WaitTime >= before.WaitTime) || !(after.Waits >= before.Waits) ||
		!(after.Preemptions >= before.Preemptions) || math.IsNaN(after.Filters) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := proc.TallyOf("/", 1<<30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no process: %v", err)
	}
}

func TestTallyPlus(t *testing.T) {
	nan := math.NaN()
	got := proc.Tally{
		PageFaults: 1, Waits: 2, Filters: 3, DiskTime: nan,
	}.Plus(proc.Tally{PageFaults: 10, Waits: 20, Filters: 1})
	if got.PageFaults != 11 || got.Waits != 22 || got.Filters != 3 || !math.IsNaN(got.DiskTime) {
		t.Errorf("%+v", got)
	}
}

// A process that has ended takes the counts of its threads with it, but its parent has its CPU time.
func TestTalliesSince(t *testing.T) {
	before := proc.Tallies{1: {UserTime: 1, Waits: 10}, 2: {UserTime: 2, Waits: 1000}}
	now := proc.Tallies{1: {UserTime: 4, Waits: 15}, 3: {UserTime: 1, Waits: 7}}
	if got, want := now.Since(before), (proc.Tally{UserTime: 2, Waits: 12}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := now.Since(nil), now.Sum(); got != want {
		t.Errorf("since the start: %+v, want %+v", got, want)
	}
}

func TestDescendants(t *testing.T) {
	child := exec.Command("sh", "-c", "sleep 1000 & echo; wait")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	all, err := proc.Descendants("/", child.Process.Pid)
	if err != nil || len(all) != 2 || all[0] != child.Process.Pid {
		t.Errorf("%d, %v, want %d and its child", all, err, child.Process.Pid)
	}
	if ours, err := proc.Descendants("/", os.Getpid()); err != nil || !slices.Contains(ours, all[len(all)-1]) {
		t.Errorf("%d, %v, want a grandchild among them", ours, err)
	}
	for _, pid := range slices.Backward(all) {
		if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	_ = child.Wait() // it was killed
}

// Packets over loopback are counted in the network namespace of who sends them.
func TestNetwork(t *testing.T) {
	s := proc.Network("/", os.Getpid())
	for _, f := range []proc.Field{proc.NetPackets, proc.LoopPackets, proc.TCPRetransmits, proc.UDPErrors} {
		if math.IsNaN(s[f]) {
			t.Errorf("field %d is absent", f)
		}
	}
	if !math.IsNaN(s[proc.Load1]) {
		t.Error("a load average of a namespace")
	}
}
