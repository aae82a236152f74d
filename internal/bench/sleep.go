package bench

import (
	"context"
	"time"
)

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
