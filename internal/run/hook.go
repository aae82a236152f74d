package run

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// hookTime is the time limit of one hook.
const hookTime = 2 * time.Minute

// HookEnded comes after each hook; of one before a trial after that trial.
type HookEnded struct {
	Hook bench.Hook
	Took time.Duration
	Err  error // which ends the run
}

func (HookEnded) event() {}

// hookLog keeps the hooks that nobody has been told about. A trial that does not return
// may still add to it.
type hookLog struct {
	mu  sync.Mutex
	all []HookEnded
}

func (l *hookLog) add(e HookEnded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// take empties the log.
func (l *hookLog) take() []HookEnded {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// tellHooks tells the observer which hooks have run.
func (r *runner) tellHooks() {
	for _, e := range r.ran.take() {
		r.observe(e)
	}
}

// hooks runs the plan's hooks of one time, in order. engine is that of the trial, or
// empty for all. A hook that fails ends the run, because its effect is part of the
// measurement.
func (r *runner) hooks(ctx context.Context, when bench.HookTime, engine string) error {
	for _, h := range r.plan.Hooks {
		if h.When != when {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, hookTime)
		began := r.Clock()
		err := r.hook(limited, h, engine)
		cancel()
		r.ran.add(HookEnded{Hook: h, Took: r.Clock() - began, Err: err})
		if when != bench.BeforeTrial { // which is not for the observer's goroutine
			r.tellHooks()
		}
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

// restart restarts one engine or, if none is named, every engine of the plan that has
// a daemon.
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
