package load

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// The kernel counts idle time in steps of 10 ms, so that shorter windows tell
// nothing, and less than slack may be its rounding.
const (
	window = 30 * time.Millisecond
	slack  = 20 * time.Millisecond
)

// Settle waits until all CPUs of the machine have been idle for a moment, and no
// longer than limit: an engine goes on working for a container when that has
// begun, and what is measured is the container, not that. Where the kernel does
// not tell, as in a sandbox, it waits for that moment alone.
func Settle(limit time.Duration) { settle(limit, idle, pause) }

func settle(limit time.Duration, idle func() (time.Duration, int), pause func(time.Duration) time.Duration) {
	before, _ := idle()
	for waited := time.Duration(0); waited < limit; {
		took := pause(window)
		waited += took
		now, cpus := idle()
		if now-before >= time.Duration(cpus)*took-slack {
			return
		}
		before = now
	}
}

// pause sleeps, and says for how long it was: a busy machine or a CPU quota makes
// that longer, and some CPUs are idle for as long as all should have been.
func pause(d time.Duration) time.Duration {
	began := time.Now()
	time.Sleep(d)
	return time.Since(began)
}

// idle is for how long the CPUs have been idle since the machine started, added
// up, and how many there are; none where the kernel does not tell.
func idle() (sum time.Duration, cpus int) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	return parseIdle(text)
}

// parseIdle reads /proc/stat: see proc_stat(5).
func parseIdle(text []byte) (sum time.Duration, cpus int) {
	const tick = 10 * time.Millisecond
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 6 || !bytes.HasPrefix(line, []byte("cpu")) {
			break
		}
		if len(fields[0]) > len("cpu") {
			cpus++
			continue
		}
		for _, field := range fields[4:6] { // idle, and idle with a request under way
			n, err := strconv.ParseInt(string(field), 10, 48)
			if err != nil {
				return 0, 0
			}
			sum += time.Duration(n) * tick
		}
	}
	if sum == 0 {
		return 0, 0 // older versions of gVisor have the file, with nothing but zeros
	}
	return sum, cpus
}
