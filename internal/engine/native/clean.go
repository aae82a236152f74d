package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// runVariable marks every process of a run, and those that they start.
const runVariable = "TARE_RUN="

// A marked process is one with runVariable in its environment. Started, in
// clock ticks since boot, tells it from another that gets its number later.
type marked struct {
	pid     int
	started uint64
	run     string
}

func (m marked) id() string { return fmt.Sprintf("%d@%d", m.pid, m.started) }

// Leftovers implements bench.Cleaner.
func (e *Engine) Leftovers(_ context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var left []bench.Leftover
	for _, m := range all {
		if dead(m.run) {
			left = append(left, bench.Leftover{Run: m.run, Engine: e.config.Name, Kind: "process", ID: m.id()})
		}
	}
	return left, nil
}

// RemoveLeftover implements bench.Cleaner.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	number, _, _ := strings.Cut(l.ID, "@")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return fmt.Errorf("leftover %q: not the ID of a process", l.ID)
	}
	// Only the very process that was listed, and only while it carries the mark.
	if m, ok := read(pid); !ok || m.id() != l.ID || m.run != l.Run {
		return nil
	}
	return kill(ctx, pid, l.ID)
}

// killRun kills every process of a run.
func killRun(ctx context.Context, run string) error {
	all, err := processes()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range all {
		if m.run == run {
			errs = append(errs, kill(ctx, m.pid, m.id()))
		}
	}
	return errors.Join(errs...)
}

// kill ends a process, and returns when it is dead.
func kill(ctx context.Context, pid int, id string) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	// A zombie has no environment any more, and so no mark.
	if !pause(ctx, func() bool { m, ok := read(pid); return !ok || m.id() != id }) {
		return fmt.Errorf("kill process %d: %w", pid, ctx.Err())
	}
	return nil
}

// processes lists the marked processes that this user may look at.
func processes() ([]marked, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	var found []marked
	for _, pid := range pids {
		if m, ok := read(pid); ok {
			found = append(found, m)
		}
	}
	return found, nil
}

// pids lists every process.
func pids() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// read reads the mark of one process. It has none if it is gone, another
// user's, or not ours.
func read(pid int) (marked, bool) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return marked{}, false
	}
	run, ok := runOf(env)
	if !ok {
		return marked{}, false
	}
	s, ok := readStat(pid)
	return marked{pid: pid, started: s.started, run: run}, ok
}

// runOf finds the run's ID in an environment. A user could set anything there.
func runOf(env []byte) (string, bool) {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if run, ok := bytes.CutPrefix(kv, []byte(runVariable)); ok {
			return string(run), bench.ValidRunID(string(run)) == nil
		}
	}
	return "", false
}

// groupAlive reports whether a process group has a member that is no zombie.
func groupAlive(group int) bool {
	pids, err := pids()
	if err != nil {
		return false // without /proc there is nothing to wait for
	}
	return slices.ContainsFunc(pids, func(pid int) bool {
		s, ok := readStat(pid)
		return ok && s.group == group && s.state != 'Z'
	})
}

// A stat is what is needed of /proc/PID/stat.
type stat struct {
	state   byte
	group   int
	started uint64 // in clock ticks since boot
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	return parseStat(text)
}

// parseStat begins after the second field, the program's name in parentheses,
// which may contain anything.
func parseStat(text []byte) (stat, bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	group, err1 := strconv.Atoi(string(fields[2]))
	started, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{state: fields[0][0], group: group, started: started}, err1 == nil && err2 == nil
}
