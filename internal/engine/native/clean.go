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
const runVariable = datadir.RunVariable

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
	return e.kill(ctx, l.ID, l.Run)
}

// killRun kills every process of a run.
func (e *Engine) killRun(ctx context.Context, run string) error {
	all, err := proc.Marked("/", runVariable)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range all {
		if p.Value == run {
			errs = append(errs, e.kill(ctx, owned.ProcessID(p.Process), run))
		}
	}
	return errors.Join(errs...)
}

// kill kills exactly the process that was listed, if it still carries the run's mark. A zombie has lost
// its environment, and so its mark. If the process works in one of the run's directories of data,
// its shared memory is recorded first, and removed with the directory.
func (e *Engine) kill(ctx context.Context, id, run string) error {
	var noted error
	err := owned.KillProcess(ctx, id, func(pid int) (proc.Process, bool) {
		p, ok := proc.FindMarked("/", pid, runVariable)
		ok = ok && p.Value == run
		if ok && noted == nil && owned.ProcessID(p.Process) == id {
			noted = e.data.NoteWorker(run, pid)
		}
		return p.Process, ok
	})
	return errors.Join(noted, err)
}

// groupAlive reports whether a process group has a member that is not a zombie.
func groupAlive(group int) bool {
	all, err := proc.All("/")
	if err != nil {
		return false // without /proc there is nothing to wait for
	}
	return slices.ContainsFunc(all, func(p proc.Process) bool { return p.Group == group && p.State != 'Z' })
}
