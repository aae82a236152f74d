package registry

import (
	"context"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A pace limits the rate of bytes. A nil pace does not limit.
type pace struct {
	rate float64 // bytes per second

	mu   sync.Mutex
	free time.Time // when all granted bytes have passed
}

func newPace(rate float64) *pace {
	if rate <= 0 {
		return nil
	}
	return &pace{rate: rate}
}

// wait returns when n more bytes have had time to pass at the rate, or the cause when ctx ends.
func (p *pace) wait(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	return bench.Sleep(ctx, time.Until(p.book(time.Now(), n)))
}

// book returns the time at which n bytes that come now have passed.
func (p *pace) book(now time.Time, n int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}

// portion is how many bytes pass at a time: those of about 10 ms.
func (p *pace) portion(most int64) int64 {
	const least, per = 4 << 10, 100
	if p == nil {
		return most
	}
	return min(most, max(least, int64(p.rate/per)))
}
