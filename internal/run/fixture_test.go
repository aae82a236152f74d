package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// fixtures is a workload with a fixture per cell.
type fixtures struct {
	workload
	journal *eventLog
	during  func() // is called while one is made; nil is not
}

type fixture struct {
	name    string
	journal *eventLog
}

func (f fixtures) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	f.journal.add("set up %s", t.Engine.Name())
	switch t.Engine.Name() {
	case "bad", "bad too":
		return nil, errors.New("no room")
	case "without":
		return nil, fmt.Errorf("%w: no port", bench.ErrUnsupported)
	case "none":
		return nil, nil
	}
	if f.during != nil {
		f.during()
	}
	return &fixture{t.Engine.Name(), f.journal}, nil
}

func (f *fixture) Reset(context.Context) error  { f.journal.add("reset %s", f.name); return nil }
func (f *fixture) Remove(context.Context) error { f.journal.add("remove %s", f.name); return nil }

func TestFixtures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, nil, "good", "bad", "without")
		b.options.Workload = fixtures{workload{func(ctx context.Context, task bench.Task, m bench.Meter) error {
			b.journal.add("run on %s", task.Fixture.(*fixture).name)
			return work(1)(ctx, task, m)
		}}, &b.journal, nil}
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range b.journal.lines {
			if strings.HasSuffix(line, " good") {
				got = append(got, line)
			}
		}
		want := []string{"set up good", "reset good", "prepare good", "run on good", "remove good"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		want2 := map[bench.Outcome]int{bench.OK: 1, bench.Skipped: 1, bench.Unsupported: 1}
		if diff := cmp.Diff(want2, outcomes(b.writer.samples)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

// A fixture that was made while the run was interrupted is removed like any other.
func TestInterruptedSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, nil, "a", "b")
		b.options.Header.Schedule = [][]int{{0, 1}}
		interrupt := make(chan struct{})
		b.options.Interrupt = interrupt
		b.options.Workload = fixtures{workload{work(1)}, &b.journal, func() { close(interrupt) }}
		if _, err := run.Run(t.Context(), b.options); !errors.Is(err, run.ErrInterrupted) {
			t.Fatalf("error %v, want ErrInterrupted", err)
		}
		if diff := cmp.Diff([]string{"set up a", "remove a"}, b.journal.lines); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// keyedWorkload is a workload whose cells share a fixture where their engines' names begin alike.
type keyedWorkload struct {
	fixtures
	alive int
}

func (keyedWorkload) Key(t bench.Task) string { return t.Engine.Name()[:1] }
func (k keyedWorkload) MaxAlive() int         { return k.alive }

// A fixture is made right before the first trial that needs it, once for all cells with
// its key; where only so many may be there at once, the one that was not used for longest
// goes, and is made again.
func TestSharedFixtures(t *testing.T) {
	for alive, want := range map[int][]string{
		0: {
			"set up a1", "run a1 on a1", "run a2 on a1", "set up b", "run b on b", "set up c", "run c on c",
			"run c on c", "run a1 on a1", "run a2 on a1", "run b on b", "remove a1", "remove b", "remove c",
		},
		2: {
			"set up a1", "run a1 on a1", "run a2 on a1", "set up b", "run b on b", "remove a1", "set up c", "run c on c",
			"run c on c", "remove b", "set up a1", "run a1 on a1", "run a2 on a1", "remove c", "set up b",
			"run b on b", "remove a1", "remove b",
		},
		1: {
			"set up a1", "run a1 on a1", "run a2 on a1", "remove a1", "set up b", "run b on b", "remove b",
			"set up c", "run c on c",
			"run c on c", "remove c", "set up a1", "run a1 on a1", "run a2 on a1", "remove a1", "set up b",
			"run b on b", "remove b",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newHarness(t, bench.Plan{MaxBlocks: 2}, nil, "a1", "a2", "b", "c")
			b.options.Header.Schedule = [][]int{{0, 1, 2, 3}, {3, 0, 1, 2}}
			b.options.Workload = keyedWorkload{
				fixtures{workload{func(ctx context.Context, task bench.Task, m bench.Meter) error {
					b.journal.add("run %s on %s", task.Engine.Name(), task.Fixture.(*fixture).name)
					return work(1)(ctx, task, m)
				}}, &b.journal, nil}, alive,
			}
			if _, err := run.Run(t.Context(), b.options); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, b.journalLines("set up ", "run ", "remove ")); diff != "" {
				t.Errorf("%d at once (-want +got):\n%s", alive, diff)
			}
		})
	}
}

// journalLines are the lines of the journal that begin with one of some words.
func (b *harness) journalLines(words ...string) (lines []string) {
	for _, line := range b.journal.lines {
		for _, word := range words {
			if strings.HasPrefix(line, word) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// What cannot be made is tried once for all cells that need it, and what no cell needs
// once.
func TestFixturesAreTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 3}, nil, "bad", "bad too", "none")
		b.options.Workload = keyedWorkload{fixtures{workload{work(1)}, &b.journal, nil}, 0}
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if made := b.journalLines("set up "); len(made) != 2 {
			t.Errorf("tried: %q, want one of the bad ones and none", made)
		}
		if diff := cmp.Diff(map[bench.Outcome]int{bench.OK: 3, bench.Skipped: 6}, outcomes(b.writer.samples)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		for _, s := range b.writer.samples {
			if s.Outcome == bench.Skipped && s.Reason != "its fixture could not be set up: no room" {
				t.Errorf("cell %d is skipped for %q", s.Trial.Cell, s.Reason)
			}
		}
	})
}

// The time that it takes to make a fixture is in no trial: neither in what it measures or
// may take, nor in the plan's time.
func TestTimeOfFixtures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 40, Budget: 5 * time.Second}, nil, "a", "b")
		b.options.Workload = fixtures{workload{work(time.Second)}, &b.journal, func() { time.Sleep(5 * time.Minute) }}
		end, err := run.Run(t.Context(), b.options)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(b.writer.samples); n != 6 || end.Reason != bench.StopBudget {
			t.Errorf("%d trials of a second each, stopped for %q; want 6 and %q", n, end.Reason, bench.StopBudget)
		}
		for _, s := range b.writer.samples {
			if s.Outcome != bench.OK || s.Elapsed != time.Second || s.Counted != time.Second || s.Values[0] != 1 {
				t.Errorf("trial %d: %s, took %v, counted %v, measured %v", s.Trial.Seq, s.Outcome, s.Elapsed, s.Counted, s.Values)
			}
		}
	})
}

// calibratingWorkload is a workload that has to know every cell before the first trial.
type calibratingWorkload struct{ fixtures }

func (l calibratingWorkload) Calibrate(_ context.Context, t bench.Task) error {
	l.journal.add("learn %s", t.Engine.Name())
	switch t.Engine.Name() {
	case "dull":
		return errors.New("no good answer")
	case "mute":
		return fmt.Errorf("%w: no network", bench.ErrUnsupported)
	}
	_, err := bench.GetCommon(t.Common, "test",
		func() (bench.Fixture, error) { return &fixture{"common", l.journal}, nil })
	return err
}

// What the cells have in common is learned before the first trial and removed last.
func TestLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t, bench.Plan{MaxBlocks: 1}, nil, "a", "dull", "mute", "b")
		b.options.Header.Schedule = [][]int{{0, 1, 2, 3}}
		b.options.Workload = calibratingWorkload{fixtures{workload{func(
			ctx context.Context, task bench.Task, m bench.Meter,
		) error {
			got, err := bench.GetCommon(task.Common, "test",
				func() (bench.Fixture, error) { return nil, errors.New("it was not learned") })
			if err != nil {
				return err
			}
			b.journal.add("run cell %d with %s", task.Cell, got.(*fixture).name)
			return work(1)(ctx, task, m)
		}}, &b.journal, nil}}
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"learn a", "learn dull", "learn mute", "learn b",
			"set up a", "run cell 0 with common", "set up b", "run cell 3 with common", "remove a", "remove b", "remove common",
		}
		if diff := cmp.Diff(want, b.journalLines("learn ", "set up ", "run ", "remove ")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, want := range []bench.Sample{
			{Outcome: bench.OK},
			{Outcome: bench.Skipped, Reason: "its fixture could not be set up: no good answer"},
			{Outcome: bench.Unsupported, Reason: "not supported here: no network"},
			{Outcome: bench.OK},
		} {
			if got := b.writer.samples[i]; got.Outcome != want.Outcome || got.Reason != want.Reason {
				t.Errorf("cell %d: %s %q, want %s %q", i, got.Outcome, got.Reason, want.Outcome, want.Reason)
			}
		}
	})
}
