package memory

import (
	"encoding/binary"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tare-bench/tare/internal/load/loadtest"
	"github.com/tare-bench/tare/internal/load/turn"
)

func TestRun(t *testing.T) {
	r, err := Run(loadtest.Args("time=20ms", "size=3MiB", "threads=3"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		Copy, Read, Triad, Write, Latency, Latency + ".16KiB", Latency + ".64KiB", Latency + ".256KiB", Latency + ".1MiB",
	}
	for _, name := range want {
		if r.Values[name] <= 0 {
			t.Errorf("%s is %v", name, r.Values[name])
		}
	}
	if len(r.Values) != len(want) {
		t.Errorf("%d values, want %d: %v", len(r.Values), len(want), r.Values)
	}
	if f := r.Facts; f[FactSize] != strconv.Itoa(3<<20) || f[FactThreads] != "3" || f[FactPages] != Normal ||
		f[FactCPUs] == "" {
		t.Errorf("facts %v", f)
	}
}

// Each mapping has other pages than the one before it, and the same contents as a first one.
func TestRenew(t *testing.T) {
	a, err := newArrays(options{size: 4 << 20, threads: 2, pages: Normal})
	if err != nil {
		t.Fatal(err)
	}
	defer a.free()
	first, known := frames(t, a.words[0])
	a.words[0][5], a.words[2][0] = 7, 7
	if err := a.renew(); err != nil {
		t.Fatal(err)
	}
	for i, words := range a.words {
		if got := total(words); got != uint64(len(words)) {
			t.Errorf("the words of array %d add up to %d, want %d", i, got, len(words))
		}
	}
	second, _ := frames(t, a.words[0])
	for frame := range second {
		if known && first[frame] {
			t.Fatal("a page of the new array is one of the old one")
		}
	}
}

// frames returns the page frames that an array is in; false if the kernel does not tell.
func frames(t *testing.T, words []uint64) (map[uint64]bool, bool) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	const present, number = 1 << 63, 1<<55 - 1
	page := os.Getpagesize()
	entries := make([]byte, len(words)*wordSize/page*8)
	if _, err := f.ReadAt(entries, int64(uintptr(unsafe.Pointer(&words[0])))/int64(page)*8); err != nil {
		t.Fatal(err)
	}
	all := map[uint64]bool{}
	for ; len(entries) > 0; entries = entries[8:] {
		entry := binary.NativeEndian.Uint64(entries)
		if entry&present == 0 {
			t.Fatal("a page of the array is not there")
		}
		all[entry&number] = true
	}
	return all, !all[0] // without the permission every number is 0
}

// The values are those of all mappings.
func TestMappings(t *testing.T) {
	r, err := Run(loadtest.Args("time=40ms", "size=1MiB", "mappings=3"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Facts[FactMapped] != "3" || r.Values[Copy] <= 0 || r.Values[Latency] <= 0 || len(r.Slices) != 0 {
		t.Errorf("%v, %v, slices %v", r.Facts, r.Values, r.Slices)
	}
	if math.Abs(r.Measured-0.036) > 1e-9 {
		t.Errorf("measured for %v s, want 40 ms without a tenth", r.Measured)
	}
}

func TestOptions(t *testing.T) {
	for words, want := range map[string]string{
		"time=1s size=1MiB threads=5":  "size=1048576: want at least 1310720 bytes for 5 threads",
		"size=1000":                    "size=1000: want a size from",
		"size=17GiB":                   "size=17GiB: want a size from",
		"pages=large":                  "pages=large: want one of normal, transparent, huge, auto",
		"time=1h":                      "time=1h: want a duration",
		"mappings=65":                  "mappings=65: want a whole number from 1 to 64",
		"speed=1":                      `no option "speed"`,
		"threads=-1":                   "threads=-1: want",
		"size=1MiB threads=4 pages=no": "pages=no",
	} {
		err := Check(loadtest.Args(strings.Fields(words)...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
		if _, again := Run(loadtest.Args(strings.Fields(words)...)); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: Run says %v, Check %v", words, again, err)
		}
	}
}

// Every loop does all of its words, and no others.
func TestLoops(t *testing.T) {
	const n = 64
	a, b, c := make([]uint64, n), make([]uint64, n), make([]uint64, n+8)
	want := uint64(0)
	for i := range a {
		a[i] = uint64(i * i)
		want += a[i]
	}
	if got := total(a); got != want {
		t.Errorf("total is %d, want %d", got, want)
	}
	duplicate(b, a)
	if !slices.Equal(a, b) {
		t.Errorf("copied %v, want %v", b, a)
	}
	combine(c[:n], a, b)
	for i := range a {
		if c[i] != 4*a[i] {
			t.Errorf("c[%d] = %d, want %d", i, c[i], 4*a[i])
		}
	}
	fill(c[:n], 7)
	if slices.ContainsFunc(c[:n], func(w uint64) bool { return w != 7 }) ||
		slices.ContainsFunc(c[n:], func(w uint64) bool { return w != 0 }) {
		t.Errorf("filled %v", c)
	}
}

// The way through memory visits every line once, and goes on at random: its
// steps are not those that a prefetcher guesses.
func TestChase(t *testing.T) {
	for lines := 1; lines <= 1<<14; lines *= 2 {
		c := newChase(make([]uint64, lines*lineWords))
		seen := map[uint64]bool{}
		distances := map[uint64]int{}
		at := c.at
		for range lines {
			if seen[at] || at%lineWords != 0 {
				t.Fatalf("%d lines: word %d is visited twice, or is not a line's first", lines, at)
			}
			seen[at] = true
			distances[c.words[at]-at]++
			at = c.words[at]
		}
		if at != c.at {
			t.Fatalf("%d lines: it does not come back", lines)
		}
		for d, times := range distances {
			if lines >= 256 && times > 8+lines/64 {
				t.Errorf("%d lines: the same distance %d, %d times", lines, int64(d), times)
			}
		}
	}
}

func TestChaseKnowsWhereItIs(t *testing.T) {
	c := newChase(make([]uint64, 1<<12))
	c.walk(1000)
	if want := linePosition(1000, 1<<12/lineWords); c.at != want {
		t.Errorf("after 1000 steps at %d, want %d", c.at, want)
	}
	c.words[linePosition(3, 1<<12/lineWords)] = 0 // a bit that fell over
	if _, err := c.measure(nil, time.Millisecond); err == nil || !strings.Contains(err.Error(), "memory is broken") {
		t.Errorf("of a broken memory: %v", err)
	}
}

func TestBrokenMemory(t *testing.T) {
	words := make([]uint64, block)
	w := pass{kernel: kernels()[1], a: words, b: words, c: words}
	if _, err := w.rate((*turn.Page)(nil).Stage(1).Clock(time.Now()), time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "add up to 0: this machine's memory is broken") {
		t.Errorf("%v", err)
	}
}

func TestLatencyOf(t *testing.T) {
	for size, want := range map[int64]string{
		16 << 10: "memory.latency.16KiB", 1 << 20: "memory.latency.1MiB", 4 << 30: "memory.latency.4GiB",
	} {
		if got := LatencyOf(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
	for _, size := range Sizes(MaxSize) {
		if bits.OnesCount64(uint64(size)) != 1 || size >= MaxSize {
			t.Errorf("a working set of %d bytes", size)
		}
	}
}

// Huge pages: set aside ones where there are, and an error that says what to do
// where there are none; and the kernel's own, which it must have made.
func TestPages(t *testing.T) {
	r, err := Run(loadtest.Args("time=10ms", "size=1MiB", "pages=huge"))
	if freeHugePages(t) >= 3 {
		if err != nil || r.Facts[FactPages] != Huge {
			t.Errorf("with huge pages free: %v", err)
		}
	} else if err == nil || !strings.Contains(err.Error(), "sysctl vm.nr_hugepages") {
		t.Errorf("without huge pages: %v", err)
	}
	r, err = Run(loadtest.Args("time=10ms", "size=4MiB", "pages=transparent"))
	if err != nil {
		if !strings.Contains(err.Error(), "transparent") {
			t.Errorf("transparent: %v", err)
		}
		return
	}
	if huge := r.Facts[FactHuge]; huge == "0" {
		t.Errorf("transparent: %s bytes in huge pages", huge)
	}
}

func freeHugePages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "HugePages_Free:"); ok {
			free, err := strconv.Atoi(strings.TrimSpace(n))
			if err != nil {
				t.Fatal(err)
			}
			return free
		}
	}
	return 0
}

// One chunk in a hundred may be quicker: a clock that jumped is not the memory's.
func TestQuickest(t *testing.T) {
	const us = time.Microsecond
	slow := slices.Repeat([]time.Duration{500 * us}, 98)
	for _, test := range []struct {
		name  string
		took  []time.Duration
		steps int
		want  time.Duration
	}{
		{"one chunk", []time.Duration{100 * us}, 100, us},
		{"fewer than a hundred: the quickest", []time.Duration{300 * us, 200 * us, 900 * us}, 100, 2 * us},
		{"a hundred: the second", append([]time.Duration{200 * us, 100 * us}, slow...), 100, 2 * us},
		{"disturbed all but twice", append(slices.Clone(slow), 200*us, 200*us), 200, us},
	} {
		if got := medianOfFastest(test.took, test.steps); math.Abs(got/test.want.Seconds()-1) > 1e-9 {
			t.Errorf("%s: %v s for each step, want %v", test.name, got, test.want)
		}
	}
}
