package bench

import (
	"context"
	"time"
)

// Because returns the cause of a context's end, if it has ended, as the reason of an error.
func Because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Sleep returns after d, or with the cause of the context's end if that comes
// first.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
