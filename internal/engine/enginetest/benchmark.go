package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// Benchmark shows the median of each phase of a container that exits at once.
// Nothing depends on these numbers; tare itself measures them properly.
func Benchmark(b *testing.B, o Options) {
	ctx := context.Background()
	e := o.Open(b, NewSite(b, imagetest.Library(b)))
	spec := bench.Spec{Argv: []string{agent.Path, "exit", "0"}}
	if err := e.Prepare(ctx, spec); err != nil {
		b.Fatal(err)
	}
	var c bench.Container
	phases := []struct {
		name string
		do   func() error
	}{
		{"create", func() (err error) { c, err = e.Create(ctx, spec); return err }},
		{"start", func() error { return c.Start(ctx) }},
		{"wait", func() error { _, err := c.Wait(ctx); return err }},
		{"remove", func() error { return c.Remove(ctx) }},
	}
	took := make([][]time.Duration, len(phases))
	for b.Loop() {
		for i, phase := range phases {
			began := time.Now()
			if err := phase.do(); err != nil {
				b.Fatalf("%s: %v", phase.name, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i, phase := range phases {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), phase.name+"-µs")
	}
	if err := e.Close(ctx); err != nil {
		b.Fatal(err)
	}
}
