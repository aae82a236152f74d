package readback

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Facts reads what the kernel holds for a process; nil if it has ended or is not visible from here.
// Before a container's program runs, that is what its engine's own process has.
func Facts(pid int) *bench.ProcessFacts {
	status, err1 := proc.ReadFile(file(pid, "status"), 1<<20)
	limits, err2 := proc.ReadFile(file(pid, "limits"), 1<<20)
	oom, err3 := proc.ReadFile(file(pid, "oom_score_adj"), 64)
	if errors.Join(err1, err2, err3) != nil || bytes.Contains(status, []byte("\nState:\tZ")) {
		return nil
	}
	var f bench.ProcessFacts
	f.UID, err1 = field[int](status, "Uid:", 1) // real, effective, saved, of the file system
	f.Files, err2 = field[uint64](limits, "Max open files", 0)
	f.OOM, err3 = strconv.Atoi(string(bytes.TrimSpace(oom)))
	if errors.Join(err1, err2, err3) != nil {
		return nil
	}
	return &f
}

// field reads the nth number, from 0, of the line that begins with key.
func field[T int | uint64](text []byte, key string, n int) (T, error) {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(key))
		if words := strings.Fields(string(rest)); ok && len(words) > n {
			v, err := strconv.ParseUint(words[n], 10, 63)
			return T(v), err
		}
	}
	return 0, fmt.Errorf("%s: no number", key)
}
