package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// rehearsing is a run of two blocks, with traced trials after the first. In it the trial that runs fifth is the
// rehearsal, which goes as f says; the others take a second.
func rehearsing(t *testing.T, f func(ctx context.Context, m bench.Meter) error) (b *harness, ran *[]string) {
	ran = new([]string)
	b = newHarness(t, bench.Plan{MaxBlocks: 2, Seed: 2}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
		line := task.Engine.Name()
		if task.Traced {
			line += " traced"
		}
		*ran = append(*ran, line)
		if len(*ran) == 5 {
			return f(ctx, m)
		}
		return work(time.Second)(ctx, task, m)
	}, "a", "b")
	b.options.Header.Schedule = [][]int{{0, 1, 1, 0}, {1, 0}}
	return b, ran
}

// order is how the trials of rehearsing run.
var order = []string{"a", "b", "b traced", "a traced", "b", "b", "a"}

// Between a traced trial and the next timed one comes a trial that nobody reads, whether it succeeds or not. There is
// none after the last block.
func TestRehearsal(t *testing.T) {
	for name, f := range map[string]func(context.Context, bench.Meter) error{
		"succeeds": func(_ context.Context, m bench.Meter) error { m.Record("work", 99); return nil },
		"fails":    func(context.Context, bench.Meter) error { return errors.New("it broke") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, ran := rehearsing(t, f)
				b.options.Header.Schedule[1] = []int{1, 0, 0, 1}
				if _, err := run.Run(t.Context(), b.options); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(append(slices.Clone(order), "a traced", "b traced"), *ran); d != "" {
					t.Errorf("trials (-want +got):\n%s", d)
				}
				for i, s := range b.writer.samples {
					if v, has := s.Value(0); s.Outcome != bench.OK || has == s.Trial.Traced || has && v != 1 {
						t.Errorf("sample %d, traced %v: %s, %v", i, s.Trial.Traced, s.Outcome, v)
					}
				}
				if n := len(b.writer.samples); n != 8 {
					t.Errorf("%d samples, want 8", n)
				}
			})
		})
	}
}

// An interrupt during the rehearsal ends the run as elsewhere: the first one lets it finish, the end of the context
// cuts it short. A resumed run needs no rehearsal.
func TestRehearsalIsInterrupted(t *testing.T) {
	for name, cut := range map[string]bool{"finishes": false, "is cut short": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				interrupt := make(chan struct{})
				var took time.Duration
				b, ran := rehearsing(t, func(ctx context.Context, _ bench.Meter) error {
					began := time.Now()
					defer func() { took = time.Since(began) }()
					time.AfterFunc(time.Second, func() {
						close(interrupt)
						if cut {
							cancel()
						}
					})
					select {
					case <-ctx.Done():
					case <-time.After(3 * time.Second):
					}
					return ctx.Err()
				})
				b.options.Interrupt = interrupt
				if _, err := run.Run(ctx, b.options); !errors.Is(err, run.ErrInterrupted) {
					t.Fatalf("error %v, want ErrInterrupted", err)
				}
				if d := cmp.Diff(order[:5], *ran); d != "" || len(b.writer.samples) != 4 || b.writer.end != nil {
					t.Errorf("%d samples, finished %v (-want +got):\n%s", len(b.writer.samples), b.writer.end != nil, d)
				}
				if (took < 3*time.Second) != cut {
					t.Errorf("it took %v", took)
				}
				b.options.Interrupt, b.options.Done = nil, slices.Clone(b.writer.samples)
				if _, err := run.Run(t.Context(), b.options); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(order[5:], (*ran)[5:]); d != "" {
					t.Errorf("resumed (-want +got):\n%s", d)
				}
			})
		})
	}
}

// A cell that is skipped has no rehearsal: it is that of the next one, or of none.
func TestRehearsalOfASkippedCell(t *testing.T) {
	refusal := fmt.Errorf("%w: no runtime", bench.ErrUnsupported)
	for _, test := range []struct{ refused, want string }{{"b", "a, a traced, a, a"}, {"ab", ""}} {
		synctest.Test(t, func(t *testing.T) {
			b, ran := rehearsing(t, func(context.Context, bench.Meter) error { return nil })
			for name := range strings.SplitSeq(test.refused, "") {
				b.options.Engines[name].(*engine).prepare = refusal
			}
			if _, err := run.Run(t.Context(), b.options); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(*ran, ", "); got != test.want || len(b.writer.samples) > 6 {
				t.Errorf("%s refused: %d samples, ran %q, want %q", test.refused, len(b.writer.samples), got, test.want)
			}
		})
	}
}
