package owned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// grace is how long a call that makes something goes on after its context has ended.
const grace = 3 * time.Second

// WithGrace returns a context that ends a while after ctx. An engine may still make the object of a
// call that is cut off, so such a call goes on, to learn what must be removed.
func WithGrace(ctx context.Context) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}

// CleanUp returns a context for the removal of what a call has made in vain. It does not end with ctx.
func CleanUp(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), grace)
}

// Create makes a container with one call, which returns its ID. If ctx ends meanwhile, it removes the
// container that the engine may have made, by its name.
func (r Run) Create(
	ctx context.Context, name string, call func(context.Context) (id string, err error),
	remove func(ctx context.Context, name string) error,
) (string, error) {
	failed := func(err error) (string, error) { return "", r.CallError("create "+name, err) }
	if ctx.Err() != nil {
		return failed(context.Cause(ctx))
	}
	longer, done := WithGrace(ctx)
	defer done()
	id, err := call(longer)
	if ctx.Err() != nil {
		clean, cancel := CleanUp(ctx)
		defer cancel()
		return failed(errors.Join(context.Cause(ctx), remove(clean, name)))
	}
	if err == nil && id == "" {
		err = errors.New("the engine's answer has no ID")
	}
	if err != nil {
		return failed(err)
	}
	return id, nil
}

// RemoveLeft removes an object, such as "container ID", if its labels still name that run. It
// is not an error if the engine says that there is no such object.
func (r Run) RemoveLeft(
	run, object string, labels func() (map[string]string, error), isGone func(error) bool, remove func() error,
) error {
	switch found, err := labels(); {
	case isGone(err):
		return nil
	case err != nil:
		return r.CallError("inspect "+object, err)
	case RunOfLabels(found) != run:
		return fmt.Errorf("%s: %s is not of run %s", r.Engine, object, run)
	}
	return remove()
}

// NotLeftover is the error that the engine never lists such a leftover.
func (r Run) NotLeftover(l bench.Leftover) error {
	return fmt.Errorf("%s: not a leftover of this engine: %s %q", r.Engine, l.Kind, l.ID)
}

// Unsupported is an error that wraps bench.ErrUnsupported.
func (r Run) Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", bench.ErrUnsupported, r.Engine, fmt.Errorf(format, args...))
}

// CheckPrivileged refuses a privileged container if the engine itself lacks a capability, as it does
// inside another container. The engine would create such a container and then fail to start it. If its
// process cannot be inspected, it is assumed to have all capabilities.
func (r Run) CheckPrivileged(daemon int) error {
	if lacks, err := readback.Unavailable(daemon); err == nil && lacks != 0 {
		return r.Unsupported("privileged: the engine itself lacks %v: run it with all capabilities", lacks)
	}
	return nil
}

// FromKernel replaces the engine's statements about a container by what the kernel says about its first
// process. They remain where the kernel cannot be asked. With an id, the limits also remain unless the
// process is in a group of that name: see readback.LimitsSeen.
func FromKernel(pid int, id string, asked bench.Limits, a *bench.Applied) (err error) {
	if a.Security, err = readback.SecuritySeen(pid, a.Security); err != nil {
		return err
	}
	if a.Network, err = netpath.Network(pid, a.Network); err != nil {
		return err
	}
	a.Limits, err = readback.LimitsSeen(pid, id, asked, a.Limits)
	return err
}

// Unreachable is the error of a connection to the engine. It wraps bench.ErrUnsupported if tare has no
// permission, or if nothing listens at the address; permission and start say what to do then.
func (r Run) Unreachable(err error, address, permission, start string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return r.Unsupported("no permission to use %s: %s: %w", address, permission, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return r.Unsupported("it is not running at %s: %s: %w", address, start, err)
	}
	return r.CallError("connect to "+address, err)
}
