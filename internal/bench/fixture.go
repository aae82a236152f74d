package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A FixtureKeyer is a Fixturer whose cells can share fixtures.
type FixtureKeyer interface {
	// Key names the fixture that the trials of a cell need, by everything on which the
	// fixture depends. Cells with equal keys share the one made for the first of them.
	Key(t Task) string
	// MaxAlive is the largest number of fixtures at one time; 0 = no limit. A new one
	// replaces the least recently used, which is removed, and made again when a trial
	// needs it.
	MaxAlive() int
}

// A Calibrator is a Workload that must know something about every cell before the first
// trial of any cell, such as the capacity of the slowest.
type Calibrator interface {
	// Calibrate measures it for one cell and keeps the result in t.Common; never timed. It
	// leaves nothing behind. If it fails, every trial of the cell is skipped.
	Calibrate(ctx context.Context, t Task) error
}

// Common holds values that all cells of a run share, by name. The runner makes one
// whenever a run begins or is resumed; it is not stored. Several goroutines may use it
// at once. The zero value is empty.
type Common struct {
	mu     sync.Mutex
	values []commonValue // in order of making
}

// A commonValue value is one that Common keeps.
type commonValue struct {
	name  string
	value any
}

// GetCommon returns the value kept under a name, which begins with the workload's name.
// The first call makes it with create, which must not use c; if create fails, nothing is
// kept. A value with a method Remove(context.Context) error, such as a Fixture, is removed
// at the end of the run. GetCommon panics if the value under the name has another type.
func GetCommon[T any](c *Common, name string, create func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.values, func(k commonValue) bool { return k.name == name }); i >= 0 {
		return c.values[i].value.(T), nil
	}
	value, err := create()
	if err == nil {
		c.values = append(c.values, commonValue{name, value})
	}
	return value, err
}

// Remove removes all values, last made first. It is for the runner and may be called
// twice.
func (c *Common) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, k := range slices.Backward(c.values) {
		if r, ok := k.value.(interface {
			Remove(ctx context.Context) error
		}); ok {
			errs = append(errs, r.Remove(ctx))
		}
	}
	c.values = nil
	return errors.Join(errs...)
}
