package registry

import (
	"context"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A rateLimiter limits the rate of bytes. A nil rateLimiter does not limit.
type rateLimiter struct {
	rate float64 // bytes per second

	mu   sync.Mutex
	free time.Time // when all granted bytes have passed
}

func newRateLimiter(rate float64) *rateLimiter {
	if rate <= 0 {
		return nil
	}
	return &rateLimiter{rate: rate}
}

// wait returns when n more bytes have had time to pass at the rate, or the cause when ctx ends.
func (p *rateLimiter) wait(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	return bench.Sleep(ctx, time.Until(p.reserve(time.Now(), n)))
}

// reserve returns the time at which n bytes that come now have passed.
func (p *rateLimiter) reserve(now time.Time, n int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}

// chunkSize is how many bytes pass at a time: those of about 10 ms.
func (p *rateLimiter) chunkSize(most int64) int64 {
	const least, per = 4 << 10, 100
	if p == nil {
		return most
	}
	return min(most, max(least, int64(p.rate/per)))
}
