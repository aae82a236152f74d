package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// hookTime is the longest time for one hook.
const hookTime = 2 * time.Minute

// setupTime is the longest time for making one fixture.
const setupTime = 10 * time.Minute

// hooks runs the plan's hooks of one time, in order. engine is the trial's
// own, or empty for all. A hook that fails ends the run: what it should have
// set up is part of what is measured.
func (r *runner) hooks(ctx context.Context, when bench.HookTime, engine string) error {
	for _, h := range r.plan.Hooks {
		if h.When != when {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, hookTime)
		err := r.hook(limited, h, engine)
		cancel()
		if err != nil {
			return fmt.Errorf("hook %s %s: %w", h.When, strings.Join(append([]string{string(h.Do)}, h.Argv...), " "), err)
		}
	}
	return nil
}

func (r *runner) hook(ctx context.Context, h bench.Hook, engine string) error {
	switch h.Do {
	case bench.HookDropCaches:
		return r.Machine.DropCaches(ctx)
	case bench.HookCommand:
		if r.Command == nil {
			return fmt.Errorf("commands: %w", bench.ErrUnsupported)
		}
		return r.Command(ctx, h.Argv)
	case bench.HookRestartEngine:
		return r.restart(ctx, engine)
	default:
		return fmt.Errorf("unknown hook %q", h.Do)
	}
}

// restart restarts one engine or, where none is named, each of the plan's
// that has a daemon.
func (r *runner) restart(ctx context.Context, engine string) error {
	for name, e := range r.Engines {
		if engine != "" && name != engine {
			continue
		}
		restarter, ok := bench.As[bench.Restarter](e)
		if !ok {
			continue // nothing to restart: a process has no daemon
		}
		if err := restarter.Restart(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// setUpFixtures makes the fixture of each cell, where the workload has them.
// A cell whose fixture cannot be made is skipped, with the reason; one that asks
// for what there is not here is as unsupported as if Check had said so.
func (r *runner) setUpFixtures(ctx context.Context) error {
	f, ok := r.Workload.(bench.Fixturer)
	if !ok {
		return nil
	}
	for cell := range r.plan.Cells {
		if r.absent[cell].why != "" {
			continue
		}
		r.observe(SetUpBegan{cell})
		limited, cancel := context.WithTimeout(ctx, setupTime)
		fixture, err := f.Setup(limited, r.task(cell))
		cancel()
		switch {
		case err == nil:
			r.fixtures[cell] = fixture
		case errors.Is(err, bench.ErrUnsupported):
			r.absent[cell] = refusal{why: err.Error()}
		default:
			r.broken[cell] = "its fixture could not be made: " + err.Error()
		}
		if r.interrupted(ctx) {
			return ErrInterrupted
		}
	}
	return nil
}

// removeFixtures works after the run was interrupted.
func (r *runner) removeFixtures(ctx context.Context) error {
	var errs []error
	for _, f := range r.fixtures {
		if f == nil {
			continue
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		if err := f.Remove(limited); err != nil {
			errs = append(errs, fmt.Errorf("remove the fixture: %w", err))
		}
		cancel()
	}
	return errors.Join(errs...)
}
