package idle

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// kept is a Recorder that keeps values.
type kept struct {
	bench.Discard
	values map[string]float64
}

func (k *kept) Record(metric string, v float64) { k.values[metric] = v }

// Work is per second. A process that began meanwhile counts as a whole, also under an old number, and one
// that ended not at all. What the kernel does not tell is missing.
func TestRecordWork(t *testing.T) {
	work := func(time, times float64) proc.OnCPU { return proc.OnCPU{Time: time, Times: times} }
	before := reading{at: 100 * time.Second, done: map[process]proc.OnCPU{
		{1, 0}: work(5, 100), {7, 1}: work(1, 10), {8, 1}: work(9, 9), {9, 1}: work(2, 50),
	}}
	after := reading{at: 110 * time.Second, done: map[process]proc.OnCPU{
		{1, 0}: work(5.3, 600), {7, 1}: work(1.1, 40), {8, 2}: work(0.1, 20), {9, 1}: work(2, 50),
	}, tree: proc.NewTree([]proc.Process{{PID: 1}, {PID: 7, Parent: 1}, {PID: 8, Parent: 7}, {PID: 9, Parent: 1}})}
	want := map[string]float64{Wakeups: 55, CPU: 0.05, EngineWakeups: 5, EngineCPU: 0.02}
	k := &kept{values: map[string]float64{}}
	recordWork(k, before, after, daemons{true, []int{7}})
	if diff := cmp.Diff(want, k.values, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	k = &kept{values: map[string]float64{}}
	zero := reading{at: 110 * time.Second, done: map[process]proc.OnCPU{{1, 0}: {}, {7, 1}: {}}}
	if recordWork(k, reading{}, zero, daemons{}); len(k.values) > 0 {
		t.Errorf("values of a kernel that does not count: %v", k.values)
	}
	after.done[process{9, 1}] = work(math.NaN(), math.NaN())
	k = &kept{values: map[string]float64{}}
	if recordWork(k, before, after, daemons{}); len(k.values) > 0 {
		t.Errorf("values of what is unknown: %v", k.values)
	}
}

// Each look counts alike, and they are spread over the time.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0.0
		got, err := watch(t.Context(), 10*time.Second, func() (use, error) {
			n++
			return use{machine: 100 * n, kernel: 7}, nil
		})
		if want := (use{machine: 550, kernel: 7}); err != nil || n != looks ||
			math.Abs(got.machine-want.machine)+math.Abs(got.kernel-want.kernel) > 1e-9 || time.Since(began) != 10*time.Second {
			t.Errorf("%+v after %v looks and %v, %v; want %+v", got, n, time.Since(began), err, want)
		}
		broken := errors.New("no file")
		if _, err := watch(t.Context(), time.Second, func() (use, error) { return use{}, broken }); !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	})
}

// What tare itself takes is not in use. Others may take as much meanwhile, but not each time.
func TestOwnMemoryIsLeftOut(t *testing.T) {
	const takes, tries = 256 << 20, 25
	var grown float64
	for range tries {
		before, err := lookAtMemory()
		if err != nil {
			t.Fatal(err)
		}
		own := make([]byte, takes)
		for i := 0; i < len(own); i += os.Getpagesize() {
			own[i] = 1
		}
		after, err := lookAtMemory()
		runtime.KeepAlive(own)
		if err != nil {
			t.Fatal(err)
		}
		if grown = after.machine - before.machine; math.Abs(grown) < takes/2 {
			return
		}
		debug.FreeOSMemory()
	}
	t.Errorf("%.0f MiB more are in use, since this process has taken %d", grown/(1<<20), takes>>20)
}

// Each file counts once, by its blocks, whatever names it has; what is gone is nothing, and limits hold.
func TestFileCount(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "sub/a"), make([]byte, 256<<10), 0o600))
	must(os.Link(filepath.Join(dir, "sub/a"), filepath.Join(dir, "b")))
	must(os.Symlink("/", filepath.Join(dir, "root")))  // which leads out
	must(os.Truncate(filepath.Join(dir, "b"), 64<<20)) // a hole has no blocks
	count := func(dir string, most int) (total int64, err error) {
		c := newFileCount(t.Context(), most)
		err = c.add(dir)
		for _, n := range c.bytes {
			total += n
		}
		return total, err
	}
	if got, err := count(dir, 10); err != nil || got < 256<<10 || got > 400<<10 {
		t.Errorf("%d bytes, %v; want some 256 KiB", got, err)
	}
	if got, err := count(filepath.Join(dir, "missing"), 10); err != nil || got != 0 {
		t.Errorf("a directory that does not exist: %d, %v", got, err)
	}
	if _, err := count(dir, 3); !errors.Is(err, errTooMany) {
		t.Errorf("more files than may be counted: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newFileCount(ended, 10).add(dir); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// What tare itself runs belongs to no engine, even if a daemon is below it.
func TestDaemonsAndDescendants(t *testing.T) {
	self := os.Getpid()
	tree := proc.NewTree([]proc.Process{
		{PID: 900, Parent: 1},
		{PID: 901, Parent: 900},
		{PID: 902, Parent: 901},
		{PID: self, Parent: 1},
		{PID: 903, Parent: self},
		{PID: 904, Parent: 903},
	})
	got := daemons{true, []int{900, 901, 903}}.all(tree)
	sorted := cmpopts.SortSlices(func(a, b int) bool { return a < b })
	if diff := cmp.Diff([]int{900, 901, 902, 903, 904}, got, sorted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParamsAreChecked(t *testing.T) {
	for _, p := range New().Params() {
		if err := p.Valid(p.Default); err != nil {
			t.Errorf("the default of %s: %v", p.Name, err)
		}
		for _, bad := range []string{"", "x", "-1s", "1000h"} {
			if p.Valid(bad) == nil {
				t.Errorf("%s takes %q", p.Name, bad)
			}
		}
	}
}
