package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/postgres"
)

// BenchmarkTrial measures trials with all four parts at scale 10. It reports what a trial takes beside its loads,
// and how long it takes until the first trial has ended, with the cluster made.
func BenchmarkTrial(b *testing.B) {
	const trials, each = 5, 200 * time.Millisecond
	for _, name := range []string{"native", "docker"} {
		b.Run(name, func(b *testing.B) {
			e := engine(b, name)
			w := postgres.New(func(dir string) *image.Library {
				return image.NewLibrary(dir, image.WithAgent(imagetest.Agent(b)))
			})
			began := time.Now()
			samples := measureAs(b, w, e, bench.Spec{}, min(b.N, trials), "scale", "10", "clients", "8", "shared_buffers",
				"256MB", "time", each.String(), "write_time", each.String(), "warmup", "0s")
			var beside []float64
			for _, s := range samples {
				if s.Outcome != bench.OK {
					b.Fatalf("%s: %s", s.Outcome, s.Reason)
				}
				beside = append(beside, (s.Elapsed - 4*each).Seconds())
			}
			slices.Sort(beside)
			b.ReportMetric(beside[len(beside)/2], "s-beside-loads")
			b.ReportMetric(samples[0].Began.Add(samples[0].Elapsed).Sub(began).Seconds(), "s-to-first")
			b.ReportMetric(0, "ns/op")
		})
	}
}
