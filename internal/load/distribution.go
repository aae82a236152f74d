package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a Histogram, in nanoseconds, and its precision in decimal digits: values
// are exact to one part in a thousand. It needs some 200 KB, however many values it has.
const (
	lowest    = 1
	highest   = int64(10 * time.Minute)
	precision = 3
)

// A Histogram counts values in nanoseconds, from 1 to ten minutes.
type Histogram struct{ h *hdrhistogram.Histogram }

// NewHistogram returns an empty histogram. It allocates all the memory that it will need.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(lowest, highest, precision)}
}

// Add counts a value; one outside the range counts as the nearest inside.
func (h *Histogram) Add(d time.Duration) {
	_ = h.h.RecordValue(min(max(int64(d), lowest), highest)) // fails only outside of the range
}

// AddMany counts a value n times.
func (h *Histogram) AddMany(d time.Duration, n int64) {
	_ = h.h.RecordValues(min(max(int64(d), lowest), highest), n) // as above
}

// Merge adds the values of another histogram.
func (h *Histogram) Merge(from *Histogram) { h.h.Merge(from.h) }

// Reset removes all values.
func (h *Histogram) Reset() { h.h.Reset() }

// Count is the number of values.
func (h *Histogram) Count() int64 { return h.h.TotalCount() }

// Percentile returns the smallest value that at least p percent of all do not
// exceed, in seconds; 0 without values. Percentile 100 is the largest value.
func (h *Histogram) Percentile(p float64) float64 {
	if p >= 100 {
		return h.seconds(h.h.Max())
	}
	return h.seconds(h.h.ValueAtPercentile(p))
}

func (h *Histogram) seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// Mean is the mean of all values, in seconds; 0 without values.
func (h *Histogram) Mean() float64 {
	if h.Count() == 0 {
		return 0
	}
	return h.h.Mean() / float64(time.Second)
}

// Min is the smallest value, in seconds; 0 without values.
func (h *Histogram) Min() float64 { return h.seconds(h.h.Min()) }

// StdDev is the standard deviation of all values, in seconds; 0 without values.
func (h *Histogram) StdDev() float64 {
	if h.Count() == 0 {
		return 0
	}
	return h.h.StdDev() / float64(time.Second)
}

// Distribution returns the histogram in the form in which it is sent and stored.
func (h *Histogram) Distribution() (Distribution, error) {
	b, err := h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return Distribution(b), nil
}

// A Distribution is an HdrHistogram of nanoseconds: V2 encoding, compressed,
// in base64 ("HISTF…").
type Distribution string

// MaxDistribution is the largest size of a Distribution, in bytes.
const MaxDistribution = 256 << 10

// Histogram decodes the distribution, which is not trusted.
func (d Distribution) Histogram() (*Histogram, error) {
	if len(d) == 0 || len(d) > MaxDistribution {
		return nil, fmt.Errorf("a histogram of %d bytes, want 1 to %d", len(d), MaxDistribution)
	}
	h, err := hdrhistogram.Decode([]byte(d))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	if h.TotalCount() <= 0 {
		return nil, errors.New("a histogram without values")
	}
	return &Histogram{h}, nil
}
