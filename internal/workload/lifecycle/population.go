package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
)

// helpers is the number of containers that are started or removed at once, untimed.
const helpers = 4

// A population is the other containers that run beside the measured one. They exist only
// during trials of their cell.
type population struct {
	task bench.Task
	size int

	mu      sync.Mutex
	members []bench.Container
}

// Reset implements bench.Fixture: it starts the population.
func (c *population) Reset(ctx context.Context) error {
	spec := holdSpec(c.task.Spec)
	err := parallel(c.size, func(int) error { return c.add(ctx, spec) })
	if err != nil {
		return fmt.Errorf("population of %d: %w", c.size, err)
	}
	return nil
}

func (c *population) add(ctx context.Context, spec bench.Spec) error {
	if err := c.task.Engine.Prepare(ctx, spec); err != nil {
		return err
	}
	member, err := c.task.Engine.Create(ctx, spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.members = append(c.members, member)
	c.mu.Unlock()
	return member.Start(ctx)
}

// Suspend implements bench.FixtureSuspender: it removes the population. The next call retries the
// containers that it could not remove.
func (c *population) Suspend(ctx context.Context) error {
	members := c.members
	removed := make([]bool, len(members))
	err := parallel(len(members), func(i int) error {
		err := bench.Dispose(ctx, c.task.Engine, members[i])
		removed[i] = err == nil
		return err
	})
	c.members = nil
	for i, member := range members {
		if !removed[i] { // with those that were not tried after an error
			c.members = append(c.members, member)
		}
	}
	return err
}

// Remove implements bench.Fixture.
func (c *population) Remove(ctx context.Context) error { return c.Suspend(ctx) }

// parallel calls do for 0 to n-1, a few at a time. After an error it starts no more
// calls.
func parallel(n int, do func(i int) error) error {
	var mu sync.Mutex
	var errs []error
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n && errs == nil
	}
	var workers sync.WaitGroup
	for range min(n, helpers) {
		workers.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
