package run_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// withAbsentEngine makes a run of an engine that is there and one that goes away in its
// third trial, for so long. Its trials fail at once meanwhile.
func withAbsentEngine(t *testing.T, absence time.Duration) *harness {
	t.Helper()
	var left time.Time
	trials := 0
	away := func() bool { return trials >= 3 && time.Since(left) < absence }
	b := newHarness(t, bench.Plan{MaxBlocks: 10}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
		if task.Engine.Name() == "stays" {
			return work(time.Millisecond)(ctx, task, m)
		}
		if trials++; trials == 3 {
			left = time.Now()
		}
		if away() {
			return errors.New("away")
		}
		return work(time.Millisecond)(ctx, task, m)
	}, "stays", "leaves")
	b.options.Engines["leaves"].(*engine).away = away
	return b
}

func (b *harness) measure(t *testing.T) (map[bench.Outcome]int, time.Duration) {
	t.Helper()
	began := time.Now()
	if _, err := run.Run(t.Context(), b.options); err != nil {
		t.Fatal(err)
	}
	return outcomes(b.writer.samples), time.Since(began)
}

// An engine that is started again costs the trial that it went away in, and no
// more.
func TestEngineComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, _ := withAbsentEngine(t, 7*time.Second).measure(t)
		if diff := cmp.Diff(map[bench.Outcome]int{bench.OK: 19, bench.Failed: 1}, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

// It costs no other trial where only a part failed in that one, also if it was not the
// first to do so.
func TestEngineComesBackAfterAPart(t *testing.T) {
	const leaves = 8
	for _, since := range []int{leaves, 1} {
		synctest.Test(t, func(t *testing.T) {
			var left time.Time
			trials := 0
			away := func() bool { return trials >= leaves && time.Since(left) < 12*time.Second }
			b := newHarness(t, bench.Plan{MaxBlocks: 10}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
				if task.Engine.Name() == "stays" {
					return work(4*time.Second)(ctx, task, m)
				}
				if trials++; trials == leaves {
					left = time.Now()
				} else if away() {
					return errors.New("away")
				}
				if trials >= since {
					m.Part(bench.PartOutcome{Part: "net", Outcome: bench.Failed, Reason: "away"})
				}
				return work(time.Millisecond)(ctx, task, m)
			}, "stays", "leaves")
			b.options.Engines["leaves"].(*engine).away = away
			got, _ := b.measure(t)
			if diff := cmp.Diff(map[bench.Outcome]int{bench.OK: 20}, got); diff != "" {
				t.Errorf("a part fails since trial %d: outcomes (-want +got):\n%s", since, diff)
			}
		})
	}
}

// One that stays away is waited for once.
func TestEngineStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, took := withAbsentEngine(t, time.Hour).measure(t)
		if diff := cmp.Diff(map[bench.Outcome]int{bench.OK: 12, bench.Failed: 3, bench.Skipped: 5}, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if took < 15*time.Second || took > 17*time.Second {
			t.Errorf("the run took %v, want 15 s and little more", took)
		}
	})
}
