package disk

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/loadtest"
)

// childVariable has the test program do something else, in this directory.
const childVariable = "TARE_TEST_DISK"

func TestMain(m *testing.M) {
	what, dir, _ := strings.Cut(os.Getenv(childVariable), ":")
	switch what {
	case "":
		os.Exit(m.Run())
	case "write":
		child(loadtest.Args("dir="+dir, "size=8MiB", "time=1m", "patterns=randwrite"))
	default:
		if err := forbidUring(); err != nil {
			fmt.Fprintln(os.Stderr, "seccomp:", err)
			os.Exit(1)
		}
		child(loadtest.Args("dir="+dir, "patterns=none", "io="+what))
	}
}

// child runs the load, and prints its report or its error.
func child(a *load.Args) {
	r, err := Run(a)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(r.Facts[FactIO])
	os.Exit(0)
}

// childOf is this program as a child.
func childOf(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+what+":"+dir)
	return cmd
}

// empty sees that nothing is left in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRun runs every pattern in every way, past the page cache and through it.
func TestRun(t *testing.T) {
	for _, q := range queues() {
		if err := q.check(); err != nil {
			t.Logf("without %s: %v", q.name, err)
			continue
		}
		for _, direct := range []string{Auto, No} {
			// In each time there is room for 20 requests.
			runEvery(t, q.name, direct, "100ms", "randread", "randwrite", "read", "write")
			runEvery(t, q.name, direct, "250ms", "fsync")
		}
	}
}

// runEvery runs patterns in one way, and wants the values of each.
func runEvery(t *testing.T, queue, direct, span string, patterns ...string) {
	t.Helper()
	dir := t.TempDir()
	words := []string{
		"dir=" + dir, "size=4MiB", "depth=8", "time=" + span, "io=" + queue, "direct=" + direct,
		"patterns=" + strings.Join(patterns, ","),
	}
	r, err := Run(loadtest.Args(words...))
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	empty(t, dir)
	if r.Facts[FactIO] != queue || (direct == No && r.Facts[FactDirect] != No) {
		t.Errorf("%v: facts %v", words, r.Facts)
	}
	figure := map[string]string{"randread": "iops", "randwrite": "iops", "read": "rate", "write": "rate", "fsync": "p50"}
	for _, pattern := range patterns {
		for _, name := range []string{figure[pattern], "p50"} {
			if v := r.Values["disk."+pattern+"."+name]; v <= 0 {
				t.Errorf("%v: disk.%s.%s = %v", words, pattern, name, v)
			}
		}
		if _, ok := r.Distributions["disk."+pattern]; !ok || len(r.Distributions) != len(patterns) {
			t.Errorf("%v: distributions %v", words, slices.Sorted(maps.Keys(r.Distributions)))
		}
	}
	if _, err := r.Line(); err != nil {
		t.Error(err)
	}
}

// TestNone checks that nothing is written where nothing is to be measured.
func TestNone(t *testing.T) {
	dir := t.TempDir()
	r, err := Run(loadtest.Args("dir="+dir, "patterns=none", "io=threads"))
	if err != nil {
		t.Fatal(err)
	}
	empty(t, dir)
	if len(r.Values)+len(r.Distributions) > 0 || r.Facts[FactIO] != Threads || r.Facts[FactSystem] == "" ||
		r.Facts[FactDirect] == "" {
		t.Errorf("%+v", r)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ words, want string }{
		{"dir=" + dir + "/none", "no such file"},
		{"size=900000000MiB dir=" + dir, "want a size"},
		{"size=1000GiB patterns=none dir=" + dir, "not enough space: the test file needs 1,000 GiB, and 50 GiB must stay free, but only "},
		{"size=10000 depth=1 block=1000 dir=" + dir, "multiple of 512"},
		{"size=64KiB dir=" + dir, "32 requests of 4 KiB need 128 KiB"},
		{"patterns=randread,randread", "each once"},
		{"patterns=randred", "randread,read,randwrite,write,fsync"},
		{"patterns=", "some of"},
		{"io=aio", "io_uring, libaio, threads"},
		{"direct=maybe", "yes, no"},
		{"depth=0", "1 to 256"},
		{"speed=1", "no option"},
	} {
		_, err := Run(loadtest.Args(strings.Fields(tt.words)...))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.words, err, tt.want)
		}
		empty(t, dir)
	}
}

// TestMemory uses a tmpfs, which has no disk to go to directly.
func TestMemory(t *testing.T) {
	dir := mountTmpfs(t, 64<<20)
	r, err := Run(loadtest.Args("dir="+dir, "size=8MiB", "time=50ms", "patterns=randread,fsync"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Facts[FactDirect] != No || !InMemory(r.Facts[FactSystem]) {
		t.Errorf("facts %v", r.Facts)
	}
	empty(t, dir)
	if _, err := Run(loadtest.Args("dir="+dir, "size=8MiB", "direct=yes")); err == nil ||
		!strings.Contains(err.Error(), "direct I/O refused by tmpfs") {
		t.Errorf("direct=yes: %v", err)
	}
	empty(t, dir)
}

// TestFull asks for a file larger than what is free, and for one that becomes
// so after the look.
func TestFull(t *testing.T) {
	dir := mountTmpfs(t, 32<<20)
	_, err := Run(loadtest.Args("dir="+dir, "size=20MiB"))
	if want := "needs 20 MiB, and 16 MiB must stay free, but only 32 MiB is free: "; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	empty(t, dir)
	f, err := create(Plan{Dir: dir, Size: 1 << 20, Block: 4096, Direct: Auto})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.fill(64 << 20); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("fill: %v, want %v", err, syscall.ENOSPC)
	}
	f.remove()
	empty(t, dir)
}

// mountTmpfs gives a tmpfs of that size, which only root can.
func mountTmpfs(t *testing.T, size int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tare-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestTerminated ends a process in the middle of its work.
func TestTerminated(t *testing.T) {
	dir := t.TempDir()
	cmd := childOf(t, "write", dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for full := false; !full; {
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(names) == 1 {
			info, err := os.Stat(names[0])
			full = err == nil && info.Size() == 8<<20
		}
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+15 {
		t.Errorf("%v, want exit status 143", err)
	}
	empty(t, dir)
}

// TestChoose takes what is allowed.
func TestChoose(t *testing.T) {
	forbidden := func() error { return syscallError("io_uring_setup", syscall.EPERM) }
	fine := func() error { return nil }
	ways := []queue{{Uring, forbidden, nil}, {Libaio, fine, nil}, {Threads, fine, nil}}
	for ask, want := range map[string]string{Auto: Libaio, Libaio: Libaio, Threads: Threads} {
		if got, err := choose(ways, ask); err != nil || got.name != want {
			t.Errorf("io=%s: %s, %v; want %s", ask, got.name, err, want)
		}
	}
	_, err := choose(ways, Uring)
	if !errors.Is(err, syscall.EPERM) ||
		!strings.Contains(err.Error(),
			"io=io_uring cannot be used here: io_uring_setup: operation not permitted: a seccomp profile") {
		t.Errorf("io=io_uring: %v", err)
	}
}

func TestCursor(t *testing.T) {
	offsets := func(w work, i, of, n int) (all []int64) {
		c := w.threadCursor(i, of)
		for range n {
			all = append(all, c.next())
		}
		return all
	}
	w := work{size: 10*512 + 100, slots: [][]byte{make([]byte, 512)}}
	if got, want := offsets(w, 0, 1, 11),
		[]int64{0, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 0}; !slices.Equal(got, want) {
		t.Errorf("in order: %v, want %v", got, want)
	}
	if got, want := offsets(w, 2, 3, 4), []int64{3072, 3584, 4096, 3072}; !slices.Equal(got, want) {
		t.Errorf("in order, third of three: %v, want %v", got, want)
	}
	w.random = true
	seen := map[int64]bool{}
	for _, o := range offsets(w, 0, 1, 1000) {
		if o%512 != 0 || o < 0 || o+512 > w.size {
			t.Fatalf("at random: %d", o)
		}
		seen[o] = true
	}
	if len(seen) != 10 {
		t.Errorf("at random: %d of 10 blocks in 1000 requests", len(seen))
	}
	if slices.Equal(offsets(w, 0, 2, 20), offsets(w, 1, 2, 20)) {
		t.Error("two threads go the same random way")
	}
}

// TestRecord checks which percentiles are told.
func TestRecord(t *testing.T) {
	for n, want := range map[int64][]string{
		20:    {"disk.randread.iops", "disk.randread.p50"},
		99:    {"disk.randread.iops", "disk.randread.p50"},
		100:   {"disk.randread.iops", "disk.randread.p50", "disk.randread.p90"},
		1000:  {"disk.randread.iops", "disk.randread.p50", "disk.randread.p90", "disk.randread.p99"},
		10000: {"disk.randread.iops", "disk.randread.p50", "disk.randread.p90", "disk.randread.p99", "disk.randread.p99.9"},
	} {
		h := load.NewHistogram()
		h.AddMany(time.Millisecond, n)
		r := load.NewReport(Name)
		if err := Record(r, Pattern{Name: "randread", Random: true}, 5, 4096, h); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.Values))); diff != "" {
			t.Errorf("%d values (-want +got):\n%s", n, diff)
		}
	}
	h := load.NewHistogram()
	h.AddMany(time.Millisecond, 19)
	if err := Record(load.NewReport(Name), Pattern{Name: "fsync", Sync: true}, 5, 4096, h); err == nil ||
		!strings.Contains(err.Error(), "19 requests") {
		t.Errorf("of 19 values: %v", err)
	}
	h.Add(time.Millisecond)
	r := load.NewReport(Name)
	if err := Record(r, Pattern{Name: "write", Write: true}, 5, 4096, h); err != nil ||
		r.Values["disk.write.rate"] != 5*4096 {
		t.Errorf("%v, %v", r.Values, err)
	}
}

// TestTally counts what completes while it is measured, and nothing else.
func TestTally(t *testing.T) {
	p := Plan{Time: time.Second}
	tally := newTally(p)
	for _, ms := range []int{0, 99, 100, 500, 1099, 1100, 2000} {
		tally.add(time.Duration(ms)*time.Millisecond, time.Millisecond)
	}
	if n := tally.latency.Count(); n != 3 || tally.rate() != 3 {
		t.Errorf("%d requests, %v in a second; want 3 and 3", n, tally.rate())
	}
	if tally.isOver(1099*time.Millisecond) || !tally.isOver(1100*time.Millisecond) {
		t.Error("it does not end after ramp and time")
	}
}

// TestSeccomp runs under a filter like those of engines, which know no io_uring.
func TestSeccomp(t *testing.T) {
	dir := t.TempDir()
	out, err := childOf(t, Auto, dir).CombinedOutput()
	if err != nil || string(out) != Libaio+"\n" {
		t.Errorf("io=auto: %v: %s; want libaio", err, out)
	}
	out, err = childOf(t, Uring, dir).CombinedOutput()
	want := "io=io_uring cannot be used here: io_uring_setup: operation not permitted: " +
		"a seccomp profile or a system setting forbids it\n"
	if err == nil || string(out) != want {
		t.Errorf("io=io_uring: %v: %s; want %s", err, out, want)
	}
	empty(t, dir)
}

// forbidUring has io_uring_setup fail with EPERM in every thread of this process.
func forbidUring() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: sysUringSetup, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the other threads get what this one has
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
