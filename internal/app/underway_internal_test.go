package app

import (
	"context"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// ended keeps how a run ended.
type ended struct {
	bench.RunWriter
	end bench.End
}

func (e *ended) Append(context.Context, bench.Sample) error { return nil }

func (e *ended) Finish(_ context.Context, end bench.End) error {
	e.end = end
	return nil
}

// A run that began first tells at its end of those that came while it measured, once each.
func TestNeighboursThatCome(t *testing.T) {
	seen := [][]string{{"old"}, {"old", "second"}, nil, {"first", "second"}}
	var kept ended
	w := &neighbourWatch{RunWriter: &kept, told: []string{"old"}, look: func() (now []string) {
		now, seen = seen[0], seen[1:]
		return now
	}}
	for len(seen) > 0 {
		if err := w.Append(t.Context(), bench.Sample{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(t.Context(), bench.End{}); err != nil {
		t.Fatal(err)
	}
	const want = "2 other runs of this machine were under way at the same time (first, second): each disturbs the other"
	if got := kept.end.Warnings; len(got) != 1 || got[0].Code != analysis.CodeOtherRun || got[0].Text != want {
		t.Errorf("the end says %+v, want %q", got, want)
	}
}
