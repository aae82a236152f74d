package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A Keyer is a Fixturer of which cells share fixtures.
type Keyer interface {
	// Key says which fixture the trials of a cell need: everything on which it depends.
	// Cells with equal keys share the one that was made for the first of them.
	Key(t Task) string
	// Alive is how many fixtures there are at once at most; 0 is any number. Another one
	// takes the place of the one that was not used for longest, which is removed, and
	// made again when a trial needs it.
	Alive() int
}

// A Learner is a Workload that has to know something of every cell before the first
// trial of any, such as what the slowest of them can do.
type Learner interface {
	// Learn finds it out for one cell and keeps it in t.Common; never timed. It leaves
	// nothing behind. If it fails, every trial of the cell is skipped.
	Learn(ctx context.Context, t Task) error
}

// Common is what the cells of one run have in common, by name. The runner makes one
// whenever a run begins or is resumed; nothing of it is stored. It may be used by
// several goroutines at once. The zero value is empty.
type Common struct {
	mu   sync.Mutex
	kept []named // in order of making
}

// A named value is one that Common keeps.
type named struct {
	name  string
	value any
}

// InCommon returns what is kept under a name, which begins with that of the workload.
// The first to ask makes it, by create, which must not use c; where that fails, nothing
// is kept. A value that has a method Remove(context.Context) error, such as a Fixture, is
// removed with the run. A name stands for values of one type: any other panics.
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

// Remove removes what is kept, last made first. It is for the runner. Twice is fine.
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
