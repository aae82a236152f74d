package registry

import (
	"testing"
	"time"
)

// Bytes pass one after the other, and what was not used is not saved up.
func TestBook(t *testing.T) {
	p := newRateLimiter(1000)
	begin := time.Unix(100, 0)
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	for i, test := range []struct {
		now  time.Time
		n    int64
		want time.Time
	}{
		{at(0), 500, at(500 * time.Millisecond)},
		{at(0), 500, at(time.Second)},
		{at(200 * time.Millisecond), 1000, at(2 * time.Second)},
		{at(10 * time.Second), 100, at(10*time.Second + 100*time.Millisecond)},
	} {
		if got := p.reserve(test.now, test.n); !got.Equal(test.want) {
			t.Errorf("call %d: %v, want %v", i, got.Sub(begin), test.want.Sub(begin))
		}
	}
}

func TestPortion(t *testing.T) {
	var none *rateLimiter
	for _, test := range []struct {
		p          *rateLimiter
		most, want int64
	}{
		{none, 1 << 30, 1 << 30},
		{newRateLimiter(0), 1 << 30, 1 << 30},
		{newRateLimiter(1 << 30), 1 << 30, 10737418},
		{newRateLimiter(1 << 30), 1000, 1000},
		{newRateLimiter(1000), 1 << 20, 4096},
	} {
		if got := test.p.chunkSize(test.most); got != test.want {
			t.Errorf("portion(%d) at %+v = %d, want %d", test.most, test.p, got, test.want)
		}
	}
}
