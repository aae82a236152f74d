package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A Keyer is a Fixturer whose cells can share fixtures.
type Keyer interface {
	// Key names the fixture that the trials of a cell need, by everything on which the
	// fixture depends. Cells with equal keys share the one made for the first of them.
	Key(t Task) string
	// Alive is the largest number of fixtures at one time; 0 = no limit. A new one
	// replaces the least recently used, which is removed, and made again when a trial
	// needs it.
	Alive() int
}

// A Learner is a Workload that must know something about every cell before the first
// trial of any cell, such as the capacity of the slowest.
type Learner interface {
	// Learn measures it for one cell and keeps the result in t.Common; never timed. It
	// leaves nothing behind. If it fails, every trial of the cell is skipped.
	Learn(ctx context.Context, t Task) error
}

// Common holds values that all cells of a run share, by name. The runner makes one
// whenever a run begins or is resumed; it is not stored. Several goroutines may use it
// at once. The zero value is empty.
type Common struct {
	mu   sync.Mutex
	kept []named // in order of making
}

// A named value is one that Common keeps.
type named struct {
	name  string
	value any
}

// InCommon returns the value kept under a name, which begins with the workload's name.
// The first call makes it with create, which must not use c; if create fails, nothing is
// kept. A value with a method Remove(context.Context) error, such as a Fixture, is removed
// at the end of the run. InCommon panics if the value under the name has another type.
func InCommon[T any](c *Common, name string, create func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.kept, func(k named) bool { return k.name == name }); i >= 0 {
		return c.kept[i].value.(T), nil
	}
	value, err := create()
	if err == nil {
		c.kept = append(c.kept, named{name, value})
	}
	return value, err
}

// Remove removes all values, last made first. It is for the runner and may be called
// twice.
func (c *Common) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, k := range slices.Backward(c.kept) {
		if r, ok := k.value.(interface {
			Remove(ctx context.Context) error
		}); ok {
			errs = append(errs, r.Remove(ctx))
		}
	}
	c.kept = nil
	return errors.Join(errs...)
}
