package registry

import (
	"context"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A pace lets bytes pass at a rate. A nil one lets all pass.
type pace struct {
	rate float64 // bytes per second

	mu   sync.Mutex
	free time.Time // when what was let pass has passed
}

func newPace(rate float64) *pace {
	if rate <= 0 {
		return nil
	}
	return &pace{rate: rate}
}

// wait returns once n bytes more have had time to pass, as on a line of that
// rate, or with the reason why ctx has ended.
func (p *pace) wait(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	return bench.Sleep(ctx, time.Until(p.book(time.Now(), n)))
}

// book returns when n bytes have passed that come now.
func (p *pace) book(now time.Time, n int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}

// portion is how much is let pass at a time: what takes about 10 ms.
func (p *pace) portion(most int64) int64 {
	const least, per = 4 << 10, 100
	if p == nil {
		return most
	}
	return min(most, max(least, int64(p.rate/per)))
}
