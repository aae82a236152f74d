package native

import (
	"context"
	"errors"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// runVariable marks every process of a run, and those that they start, with
// the run's ID.
const runVariable = "TARE_RUN"

// Leftovers implements bench.Cleaner.
func (e *Engine) Leftovers(_ context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	all, err := proc.Marked("/", runVariable)
	if err != nil {
		return nil, err
	}
	left := owned.Leftovers{Engine: e.config.Name, IsDead: dead}
	for _, p := range all { // any user can set this variable to anything
		left.Add(p.Value, "process", owned.ProcessID(p.Process))
	}
	data, err := e.data.Leftovers(dead)
	return append(left.Found, data...), err
}

// RemoveLeftover implements bench.Cleaner.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if l.Kind == datadir.Kind {
		return e.data.RemoveLeftover(l)
	}
	return kill(ctx, l.ID, l.Run)
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
			errs = append(errs, kill(ctx, owned.ProcessID(p.Process), run))
		}
	}
	return errors.Join(errs...)
}

// kill kills exactly the process that was listed, if it still carries the run's mark. A zombie has lost
// its environment, and so its mark.
func kill(ctx context.Context, id, run string) error {
	return owned.KillProcess(ctx, id, func(pid int) (proc.Process, bool) {
		p, ok := proc.FindMarked("/", pid, runVariable)
		return p.Process, ok && p.Value == run
	})
}

// groupAlive reports whether a process group has a member that is not a zombie.
func groupAlive(group int) bool {
	all, err := proc.All("/")
	if err != nil {
		return false // without /proc there is nothing to wait for
	}
	return slices.ContainsFunc(all, func(p proc.Process) bool { return p.Group == group && p.State != 'Z' })
}
