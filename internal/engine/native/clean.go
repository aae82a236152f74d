package native

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// runVariable marks every process of a run, and those that they start, with
// the run's ID.
const runVariable = "TARE_RUN"

// idOf has the start time too, because another process can get the same number later.
func idOf(p proc.MarkedProcess) string { return fmt.Sprintf("%d@%d", p.PID, p.Start) }

// Leftovers implements bench.Cleaner.
func (e *Engine) Leftovers(_ context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	all, err := proc.Marked("/", runVariable)
	if err != nil {
		return nil, err
	}
	var left []bench.Leftover
	for _, p := range all {
		// Any user can set this variable to anything.
		if bench.ValidRunID(p.Value) == nil && dead(p.Value) {
			left = append(left, bench.Leftover{Run: p.Value, Engine: e.config.Name, Kind: "process", ID: idOf(p)})
		}
	}
	data, err := e.data.Leftovers(dead)
	return append(left, data...), err
}

// RemoveLeftover implements bench.Cleaner.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if l.Kind == datadir.Kind {
		return e.data.RemoveLeftover(l)
	}
	number, _, _ := strings.Cut(l.ID, "@")
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 {
		return fmt.Errorf("leftover %q is not the ID of a process (PID@START)", l.ID)
	}
	return kill(ctx, pid, l.ID, l.Run)
}

// killRun kills every process of a run.
func killRun(ctx context.Context, run string) error {
	all, err := proc.Marked("/", runVariable)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range all {
		if p.Value == run {
			errs = append(errs, kill(ctx, p.PID, idOf(p), run))
		}
	}
	return errors.Join(errs...)
}

// kill kills exactly the process that was listed, if it still carries the run's mark, and returns
// when it is dead.
func kill(ctx context.Context, pid int, id, run string) error {
	// A zombie has lost its environment, and so its mark.
	still := func() bool {
		p, ok := proc.FindMarked("/", pid, runVariable)
		return ok && idOf(p) == id && p.Value == run
	}
	if err := cgroup.KillProcess(pid, still); err != nil {
		return err
	}
	if !pollUntil(ctx, func() bool { return !still() }) {
		return fmt.Errorf("kill process %d: %w", pid, ctx.Err())
	}
	return nil
}

// groupAlive reports whether a process group has a member that is not a zombie.
func groupAlive(group int) bool {
	all, err := proc.All("/")
	if err != nil {
		return false // without /proc there is nothing to wait for
	}
	return slices.ContainsFunc(all, func(p proc.Process) bool { return p.Group == group && p.State != 'Z' })
}
