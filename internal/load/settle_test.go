package load

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// clock is a machine of two CPUs whose idle time goes by a script, in steps of a
// window.
type clock struct {
	idleTime time.Duration
	script   []time.Duration // idle in each window; the last goes on
	late     time.Duration   // by how much it wakes
	slept    int
}

func (c *clock) now() (time.Duration, int) { return c.idleTime, 2 }

func (c *clock) pause(d time.Duration) time.Duration {
	c.idleTime += c.script[min(c.slept, len(c.script)-1)]
	c.slept++
	return d + c.late
}

func TestSettle(t *testing.T) {
	const all = 2 * window
	for name, test := range map[string]struct {
		script []time.Duration
		late   time.Duration
		want   int // windows
	}{
		"idle":                     {[]time.Duration{all}, 0, 1},
		"rounded":                  {[]time.Duration{all - slack}, 0, 1},
		"one CPU busy for a while": {[]time.Duration{window, window, window, all}, 0, 4},
		"busy for good":            {[]time.Duration{0}, 0, 10},
		"one CPU busy, woken late": {[]time.Duration{2 * window}, window, 5},
		"idle, woken late":         {[]time.Duration{4 * window}, window, 1},
	} {
		c := &clock{script: test.script, late: test.late}
		settleUntil(10*window, c.now, c.pause)
		if c.slept != test.want {
			t.Errorf("%s: waited for %d windows, want %d", name, c.slept, test.want)
		}
	}
	windows := 0
	settleUntil(10*window, func() (time.Duration, int) { return 0, 0 },
		func(d time.Duration) time.Duration { windows++; return d })
	if windows != 1 {
		t.Errorf("waited for %d windows where nothing is known, want 1", windows)
	}
}

func TestParseIdle(t *testing.T) {
	const text = "cpu  10 0 20 300 5 0 1 2 0 0\ncpu0 5 0 10 150 5 0 1 2 0 0\ncpu1 5 0 10 150 0 0 0 0 0 0\nintr 1 2 3\n"
	if sum, cpus := parseIdle([]byte(text)); sum != 3050*time.Millisecond || cpus != 2 {
		t.Errorf("%v on %d CPUs", sum, cpus)
	}
	for _, bad := range []string{
		"", "cpu\n", "cpu  a b c d e f\n", "intr 1\n", "cpu 1 2 3 99999999999999999999999 5\n",
		"cpu  0 0 0 0 0 0\ncpu0 0 0 0 0 0 0\n",
	} {
		if sum, cpus := parseIdle([]byte(bad)); sum != 0 || cpus != 0 {
			t.Errorf("%q: %v on %d CPUs", bad, sum, cpus)
		}
	}
	live, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	if sum, cpus := parseIdle(live); sum <= 0 || cpus < runtime.NumCPU() {
		t.Errorf("here: %v on %d CPUs", sum, cpus)
	}
}

func FuzzParseIdle(f *testing.F) {
	f.Add([]byte("cpu  10 0 20 300 5 0 1 2 0 0\ncpu0 5 0 10 150 5 0 1 2 0 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if sum, cpus := parseIdle(text); cpus < 0 || cpus > len(text) {
			t.Errorf("%v on %d CPUs", sum, cpus)
		}
	})
}
