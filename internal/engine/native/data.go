package native

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
)

// DataDir implements bench.DataKeeper. It reserves a new directory with each call, below Spec.Data
// or else in the run's directory. It belongs to the container that names it in its arguments.
func (e *Engine) DataDir(spec bench.Spec) (string, error) {
	if err := e.check(spec); err != nil {
		return "", err
	}
	d, err := e.data.Reserve(spec)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.config.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.announced = append(e.announced, d)
	return d.Path, nil
}

// dataOf makes the directory that DataDir reserved for a container. If none was reserved, a
// container gets one only if its Spec has a Storage.
func (e *Engine) dataOf(spec bench.Spec) (*datadir.Dir, error) {
	d := e.takeNamed(spec.Argv)
	if d == nil {
		return e.data.Take(spec)
	}
	return d, e.data.Make(d)
}

// takeNamed removes the directory that an argument names from the list of reserved ones, and returns
// it.
func (e *Engine) takeNamed(argv []string) *datadir.Dir {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.announced, func(d *datadir.Dir) bool {
		return slices.ContainsFunc(argv, func(arg string) bool { return mentionsPath(arg, d.Path) })
	})
	if i < 0 {
		return nil
	}
	d := e.announced[i]
	e.announced = slices.Delete(e.announced, i, i+1)
	return d
}

// mentionsPath reports whether an argument, such as "dir=PATH" or "PATH/file", contains a path. The paths
// of directories end in a number or in a data name.
func mentionsPath(arg, path string) bool {
	_, rest, found := strings.Cut(arg, path)
	return found && (rest == "" || !strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyz-", rune(rest[0])))
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
