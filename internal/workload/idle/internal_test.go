package idle

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
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

// Work is per second. A thread that began meanwhile counts as a whole, also under an old number, and one
// that ended not at all: what it had done before is taken from nothing. What the kernel does not tell is missing.
func TestRecordWork(t *testing.T) {
	work := func(time, times float64) proc.OnCPU { return proc.OnCPU{Time: time, Times: times} }
	before := reading{at: 100 * time.Second, done: map[thread]proc.OnCPU{
		{1, 0, 1}: work(5, 100), {1, 0, 2}: work(3000, 9e6), {7, 1, 7}: work(1, 10), {7, 1, 71}: work(700, 8000),
		{7, 1, 72}: work(30, 90), {8, 1, 8}: work(9, 9), {9, 1, 9}: work(2, 50),
	}}
	after := reading{at: 110 * time.Second, done: map[thread]proc.OnCPU{
		{1, 0, 1}: work(5.3, 600), {7, 1, 7}: work(1.05, 20), {7, 1, 72}: work(0.05, 20), {8, 2, 8}: work(0.1, 20),
		{9, 1, 9}: work(2, 50),
	}, tree: proc.NewTree([]proc.Process{{PID: 1}, {PID: 7, Parent: 1}, {PID: 8, Parent: 7}, {PID: 9, Parent: 1}})}
	want := map[string]float64{Wakeups: 55, CPU: 0.05, EngineWakeups: 5, EngineCPU: 0.02}
	k := &kept{values: map[string]float64{}}
	recordWork(k, before, after, daemons{true, []int{7}})
	if diff := cmp.Diff(want, k.values, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	k = &kept{values: map[string]float64{}}
	zero := reading{at: 110 * time.Second, done: map[thread]proc.OnCPU{{1, 0, 1}: {}, {7, 1, 7}: {}}}
	if recordWork(k, reading{}, zero, daemons{}); len(k.values) > 0 {
		t.Errorf("values of a kernel that does not count: %v", k.values)
	}
	after.done[thread{9, 1, 9}] = work(math.NaN(), math.NaN())
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

// takes says that the test's program is to take some memory and no more.
const takes = "TARE_TEST_TAKES"

// stopped is a Clock that shows the same time always.
type stopped struct{ bench.Clock }

func (stopped) Now() time.Duration { return 0 }

// What tare has started is its own: a child's work and memory are not the machine's.
func TestDescendantsAreLeftOut(t *testing.T) {
	const bytes = 128 << 20
	if os.Getenv(takes) != "" {
		own := make([]byte, bytes)
		for i := 0; i < len(own); i += os.Getpagesize() {
			own[i] = 1
		}
		_, _ = os.Stdout.WriteString("taken\n") // or its reader waits in vain
		_, _ = io.Copy(io.Discard, os.Stdin)    // until the test closes it
		runtime.KeepAlive(own)
		return
	}
	debug.FreeOSMemory()
	before, err := ownMemory()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDescendantsAreLeftOut$")
	child.Env = append(os.Environ(), takes+"=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()   // which ends it
		_ = child.Wait() // it was only there
	}()
	if _, err := io.ReadFull(out, make([]byte, len("taken\n"))); err != nil {
		t.Fatal(err)
	}
	after, err := ownMemory()
	if err != nil || after-before < bytes/2 {
		t.Errorf("tare has %.0f MiB more, %v; its child has taken %d", (after-before)/(1<<20), err, bytes>>20)
	}
	r, err := read(stopped{})
	if err != nil {
		t.Fatal(err)
	}
	for one := range r.done {
		if one.pid == os.Getpid() || one.pid == child.Process.Pid {
			t.Errorf("the work of process %d counts: this one is %d, its child %d", one.pid, os.Getpid(), child.Process.Pid)
		}
	}
	if len(r.done) == 0 {
		t.Error("nothing counts")
	}
}

// What tare itself runs belongs to no engine, even if it is a daemon: an engine's service that it has started.
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
	if diff := cmp.Diff([]int{900, 901, 902}, got, sorted); diff != "" {
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
