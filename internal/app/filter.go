package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Filter chooses stored runs: those that have everything that it asks for. The zero value
// chooses all.
type Filter struct {
	Experiment string        // its name
	Host       string        // its name
	Engines    []string      // each of which took part
	Labels     []bench.Label // each with one of the values that are asked for its key; an empty value is any
	Since      time.Time     // it began then or later; zero = whenever
	Before     time.Time     // it began earlier than that; zero = whenever
}

// Chooses reports whether the filter chooses a run.
func (f *Filter) Chooses(h *bench.Header) bool {
	switch {
	case f.Experiment != "" && h.Plan.Name != f.Experiment:
	case f.Host != "" && h.Host.Hostname != f.Host:
	case !f.Since.IsZero() && h.Began.Before(f.Since):
	case !f.Before.IsZero() && !h.Began.Before(f.Before):
	case slices.ContainsFunc(f.Engines, func(e string) bool { return !tookPart(h, e) }):
	case slices.ContainsFunc(f.Labels, func(l bench.Label) bool { return !f.hasLabel(h, l.Key) }):
	default:
		return true
	}
	return false
}

// All reports whether the filter chooses every run.
func (f *Filter) All() bool {
	return f.Experiment == "" && f.Host == "" && len(f.Engines)+len(f.Labels) == 0 && f.Since.IsZero() && f.Before.IsZero()
}

func tookPart(h *bench.Header, engine string) bool {
	return slices.ContainsFunc(h.Plan.Cells, func(c bench.Cell) bool { return c.Engine == engine })
}

// hasLabel reports whether a run has a label of that key with a value that is asked for.
func (f *Filter) hasLabel(h *bench.Header, key string) bool {
	return slices.ContainsFunc(h.Plan.Labels, func(l bench.Label) bool {
		return l.Key == key && slices.ContainsFunc(f.Labels, func(asked bench.Label) bool {
			return asked.Key == key && (asked.Value == "" || asked.Value == l.Value)
		})
	})
}

// timeLayouts are the forms of a point in time, in local time where they name no zone.
var timeLayouts = []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime, time.RFC3339}

// ParseTime reads a point in time: a date, which means its first instant, a date and a time,
// or how long ago it was, such as 7d or 36h.
func ParseTime(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	ago, err := unit.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is neither a date nor a duration", text)
	}
	return now.Add(-ago), nil
}
