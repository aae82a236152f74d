package load

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// The kernel counts idle time in steps of 10 ms. So shorter windows say nothing, and less
// than slack may be rounding.
const (
	window = 30 * time.Millisecond
	slack  = 20 * time.Millisecond
)

// Settle waits until all CPUs of the machine have been idle for a moment, but at most for
// limit. After a container has started, the engine still works for a while, and that work
// must not disturb the measurement. If the kernel does not tell idle time, as in a
// sandbox, Settle only waits for one window.
func Settle(limit time.Duration) { settleUntil(limit, idleTime, pause) }

func settleUntil(limit time.Duration, idleTime func() (time.Duration, int), pause func(time.Duration) time.Duration) {
	before, _ := idleTime()
	for waited := time.Duration(0); waited < limit; {
		took := pause(window)
		waited += took
		now, cpus := idleTime()
		if now-before >= time.Duration(cpus)*took-slack {
			return
		}
		before = now
	}
}

// pause sleeps, and returns how long that took: a busy machine or a CPU quota makes it
// longer, and with the planned time, busy CPUs would look idle.
func pause(d time.Duration) time.Duration {
	began := time.Now()
	time.Sleep(d)
	return time.Since(began)
}

// idleTime returns the idle time of all CPUs since the machine started, summed, and their
// number; 0 and 0 if the kernel does not tell.
func idleTime() (sum time.Duration, cpus int) {
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
		for _, field := range fields[4:6] { // idle and iowait
			n, err := strconv.ParseInt(string(field), 10, 48)
			if err != nil {
				return 0, 0
			}
			sum += time.Duration(n) * tick
		}
	}
	if sum == 0 {
		return 0, 0 // in older versions of gVisor, the file has only zeros
	}
	return sum, cpus
}
