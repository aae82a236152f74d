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

const slice = 20 * time.Millisecond

// takingTurns is a workload of stages, each of so many turns, whose every turn takes its whole slice.
func takingTurns(log *eventLog, stages ...int) func(context.Context, bench.Task, bench.Meter) error {
	return func(ctx context.Context, task bench.Task, m bench.Meter) error {
		log.add("%s begins", task.Engine.Name())
		time.Sleep(time.Second) // while its container is made
		for stage, turns := range stages {
			for turn := range turns {
				got, err := task.Turns.Wait(ctx, turn == 0)
				if err != nil {
					return err
				}
				time.Sleep(got)
				log.add("%s %d", task.Engine.Name(), stage)
			}
		}
		log.add("%s ends", task.Engine.Name())
		m.Record("work", 1)
		return nil
	}
}

// Trials begin one after the other, take turns stage by stage in rounds of changing order, and their
// samples count their own time alone.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		const turns = 12
		b := newHarness(t, bench.Plan{MaxBlocks: 1, Slice: slice, Seed: 5}, takingTurns(&log, turns, turns), "a", "b", "c")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		var rounds []string
		for i, line := range log.lines {
			switch begins := strings.HasSuffix(line, " begins"); {
			case begins != (i < 3):
				t.Errorf("event %d is %q; want three trials to begin, and then turns", i, line)
			case !begins && !strings.HasSuffix(line, " ends"):
				rounds = append(rounds, line)
			}
		}
		orders := map[string]bool{}
		for n := range 2 * turns {
			round, seen := rounds[3*n:3*n+3], map[string]bool{}
			for _, line := range round {
				seen[line] = true
			}
			for _, cell := range []string{"a", "b", "c"} {
				if !seen[fmt.Sprintf("%s %d", cell, n/turns)] {
					t.Errorf("round %d is %q", n, round)
				}
			}
			orders[strings.Join(round, ",")] = true
		}
		if len(orders) < 6 {
			t.Errorf("%d orders in %d rounds: not at random", len(orders), 2*turns)
		}
		for i, s := range b.writer.samples {
			if own := time.Second + 2*turns*slice; s.Outcome != bench.OK || s.Trial.Seq != i || s.Elapsed != own || s.Counted != own {
				t.Errorf("trial %d: %s, took %v, counted for %v; want ok, and %v of its own", i, s.Outcome, s.Elapsed, s.Counted, own)
			}
		}
	})
}

// A run that is resumed has the rounds that it would have had.
func TestTurnsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measure := func(done ...bench.Sample) (rounds []string, samples []bench.Sample) {
			var log eventLog
			b := newHarness(t, bench.Plan{MaxBlocks: 2, Slice: slice, Seed: 5}, takingTurns(&log, 20), "a", "b", "c")
			b.options.Done, b.writer.samples = done, slices.Clone(done)
			if _, err := run.Run(t.Context(), b.options); err != nil {
				t.Fatal(err)
			}
			for _, line := range log.lines {
				if strings.HasSuffix(line, " 0") {
					rounds = append(rounds, line)
				}
			}
			return rounds, b.writer.samples
		}
		whole, samples := measure()
		resumed, _ := measure(samples[:3]...)
		if len(whole) != 120 {
			t.Fatalf("two blocks have the turns %q", whole)
		}
		if diff := cmp.Diff(whole[60:], resumed); diff != "" {
			t.Errorf("the second block, in one go and after it was resumed (-in one go +resumed):\n%s", diff)
		}
	})
}

// A meterOf counts what the whole machine does, and can be suspended.
type meterOf struct {
	*machine
	world           *float64 // what the machine did so far
	before, earlier float64
}

func (m *meterOf) Begin(bench.Trial, time.Duration) { m.before, m.earlier = *m.world, 0 }

func (m *meterOf) End(dst []float64) { dst[0], dst[1] = *m.world-m.before+m.earlier, 0 }

func (m *meterOf) Suspend() (resume func()) {
	earlier := m.earlier + *m.world - m.before
	return func() { m.earlier, m.before = earlier, *m.world }
}

// What the machine does in a turn counts for the cell that has it, and for no other: neither in turns, nor while a
// container of another cell is made or removed.
func TestCountersInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns = 7
		work := map[string]float64{"a": 1, "b": 100, "c": 10_000}
		world := 0.0
		b := newHarness(t, bench.Plan{MaxBlocks: 2, Slice: slice}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			own := work[task.Engine.Name()]
			world += own // while its container is made
			for turn := range turns {
				if _, err := task.Turns.Wait(ctx, turn == 0); err != nil {
					return err
				}
				world += own
			}
			m.Cleanup(func(context.Context) error { world += own; return nil })
			return nil
		}, "a", "b", "c")
		b.options.Instruments = []bench.Instrument{&meterOf{machine: &machine{journal: &b.journal}, world: &world}}
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.writer.samples {
			own := work[b.options.Header.Plan.Cells[s.Trial.Cell].Name]
			counted, _ := s.Value(2)
			if least, most := own*(1+turns), own*(2+turns); counted < least || counted > most {
				t.Errorf("trial %d of a cell that does %v in each turn counts %v, want %v to %v", s.Trial.Seq, own, counted, least, most)
			}
		}
		if n := len(b.writer.samples); n != 6 {
			t.Errorf("%d samples, want 6", n)
		}
	})
}

// A trial that fails leaves its block, and the others have all of their turns.
func TestTurnsWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		all := takingTurns(&log, 5)
		b := newHarness(t, bench.Plan{MaxBlocks: 1, Slice: slice}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if task.Engine.Name() != "b" {
				return all(ctx, task, m)
			}
			if _, err := task.Turns.Wait(ctx, true); err != nil {
				return err
			}
			return errors.New("it broke")
		}, "a", "b", "c")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		var got []bench.Outcome
		for _, s := range b.writer.samples {
			got = append(got, s.Outcome)
		}
		failed := map[int]bool{1: true}
		for i, s := range b.writer.samples {
			if want := failed[s.Trial.Cell]; (s.Outcome == bench.Failed) != want || (s.Outcome == bench.OK) == want {
				t.Errorf("trials ended %v; trial %d of cell %d is wrong", got, i, s.Trial.Cell)
			}
		}
	})
}

// One that does not end its turn reaches its own limit, and takes none of the others' time.
func TestTurnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		all := takingTurns(&log, 20)
		p := bench.Plan{MaxBlocks: 1, Slice: slice, TrialTime: 2 * time.Second}
		b := newHarness(t, p, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if task.Engine.Name() != "b" {
				return all(ctx, task, m)
			}
			if _, err := task.Turns.Wait(ctx, true); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, "a", "b", "c")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if got := outcomes(b.writer.samples); got[bench.OK] != 2 || got[bench.TimedOut] != 1 {
			t.Errorf("trials ended %v, want two ok and one timed out", got)
		}
	})
}

// A trial that does not even end after its limit ends the run, and the others end with it.
func TestTurnThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log eventLog
		all := takingTurns(&log, 20)
		release := make(chan struct{})
		defer close(release)
		p := bench.Plan{MaxBlocks: 1, Slice: slice, TrialTime: 2 * time.Second}
		b := newHarness(t, p, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if task.Engine.Name() == "b" {
				<-release
				return nil
			}
			return all(ctx, task, m)
		}, "a", "b", "c")
		_, err := run.Run(t.Context(), b.options)
		if err == nil || !strings.Contains(err.Error(), "did not return") || len(b.writer.samples) != 3 {
			t.Errorf("Run = %v with %d samples, want that a trial does not return, and 3", err, len(b.writer.samples))
		}
	})
}

// Where one container cannot be given turns, the trials of its condition run whole, also those of this block.
func TestTurnsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := map[string]int{}
		b := newHarness(t, bench.Plan{Warmup: 1, MaxBlocks: 2, Slice: slice}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if !task.Turns.On() {
				return nil
			}
			on[task.Engine.Name()]++
			if task.Engine.Name() == "sandbox" {
				return fmt.Errorf("its processes are hidden: %w", bench.ErrNoTurns)
			}
			_, err := task.Turns.Wait(ctx, true)
			return err
		}, "a", "sandbox", "other")
		b.options.Header.Plan.Cells[2].Condition = "elsewhere"
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		if on["a"] > 1 || on["sandbox"] != 1 || on["other"] != 3 { // the trial of a may come after that of the sandbox
			t.Errorf("trials with turns: %v", on)
		}
		if len(b.writer.samples) != 9 {
			t.Errorf("%d samples, want one for each of 9 trials", len(b.writer.samples))
		}
		for i, s := range b.writer.samples {
			whole := slices.Contains(s.Notes, bench.NoteWhole)
			if s.Trial.Seq != i || s.Outcome != bench.OK || whole != (s.Trial.Cell != 2) {
				t.Errorf("trial %d: %s %s, with notes %q", s.Trial.Seq, s.Outcome, s.Reason, s.Notes)
			}
		}
	})
}

// A run that is interrupted while a container cannot be given turns keeps the sample of each trial that has begun,
// and has none of the others.
func TestTurnsRefusedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := 0
		b := newHarness(t, bench.Plan{MaxBlocks: 3, Slice: slice}, func(ctx context.Context, task bench.Task, _ bench.Meter) error {
			if begun++; begun == 3 { // the first one of the second block
				cancel()
				return fmt.Errorf("its processes are hidden: %w", bench.ErrNoTurns)
			}
			_, err := task.Turns.Wait(ctx, true)
			return err
		}, "a", "b")
		_, _ = run.Run(ctx, b.options) // it was interrupted
		if begun != 3 || len(b.writer.samples) != 3 {
			t.Errorf("%d samples of %d trials that began, want 3 of 3", len(b.writer.samples), begun)
		}
		for i, s := range b.writer.samples {
			if s.Trial.Seq != i || (s.Outcome == bench.OK) != (i < 2) {
				t.Errorf("sample %d is of trial %d: %s %s", i, s.Trial.Seq, s.Outcome, s.Reason)
			}
		}
	})
}

// A limit that works in periods is found at the first turn, and the samples of its cell say so, also after the
// run was resumed.
func TestTurnsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(ctx context.Context, task bench.Task, m bench.Meter) error {
			if !task.Turns.On() {
				m.Record("work", 1)
				return nil
			}
			if task.Engine.Name() == "limited" {
				time.Sleep(time.Second)
				return fmt.Errorf("%w: a CPU quota", bench.ErrPeriodicLimit)
			}
			_, err := task.Turns.Wait(ctx, true)
			return err
		}
		b := newHarness(t, bench.Plan{MaxBlocks: 2, Slice: slice}, do, "a", "limited")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		check := func(samples []bench.Sample) {
			for _, s := range samples {
				want := []string{bench.NoteWhole}
				if s.Trial.Cell == 1 {
					want = append(want, bench.NotePeriodicLimit)
				}
				if diff := cmp.Diff(want, s.Notes); s.Outcome != bench.OK || diff != "" {
					t.Errorf("trial %d: %s %s (-want +got):\n%s", s.Trial.Seq, s.Outcome, s.Reason, diff)
				}
				if first := s.Trial.Block == 0 && s.Trial.Cell == 1; (s.Elapsed >= time.Second) != first {
					t.Errorf("trial %d took %v; what was tried before belongs to it", s.Trial.Seq, s.Elapsed)
				}
			}
		}
		check(b.writer.samples)
		again := newHarness(t, bench.Plan{MaxBlocks: 3, Slice: slice}, do, "a", "limited")
		again.options.Done, again.writer.samples = b.writer.samples, slices.Clone(b.writer.samples)
		if _, err := run.Run(t.Context(), again.options); err != nil {
			t.Fatal(err)
		}
		if check(again.writer.samples); len(again.writer.samples) != 6 {
			t.Errorf("%d samples after it was resumed, want 6", len(again.writer.samples))
		}
	})
}

// After an interruption the block is finished; the end of the context ends it at once.
func TestTurnsInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		hard bool
		want bench.Outcome
	}{"softly": {false, bench.OK}, "at once": {true, bench.Canceled}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log eventLog
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				interrupt := make(chan struct{})
				all, once := takingTurns(&log, 20), false
				b := newHarness(t, bench.Plan{MaxBlocks: 3, Slice: slice}, func(ctx context.Context, task bench.Task, m bench.Meter) error {
					if !once {
						once = true
						time.AfterFunc(3200*time.Millisecond, func() {
							close(interrupt)
							if test.hard {
								cancel()
							}
						})
					}
					return all(ctx, task, m)
				}, "a", "b", "c")
				b.options.Interrupt = interrupt
				if _, err := run.Run(ctx, b.options); !errors.Is(err, run.ErrInterrupted) {
					t.Errorf("Run = %v, want that it was interrupted", err)
				}
				if got := outcomes(b.writer.samples); len(b.writer.samples) != 3 || got[test.want] != 3 {
					t.Errorf("trials ended %v, want 3 %s", got, test.want)
				}
			})
		})
	}
}

// A stage that begins with a new container comes right after a washout, as a trial does.
func TestTurnsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *harness
		b = newHarness(t, bench.Plan{MaxBlocks: 1, Slice: slice}, func(ctx context.Context, task bench.Task, _ bench.Meter) error {
			for range 3 {
				if err := task.Turns.WaitSettled(ctx); err != nil {
					return err
				}
				b.journal.add("%s starts", task.Engine.Name())
			}
			return nil
		}, "a", "b")
		if _, err := run.Run(t.Context(), b.options); err != nil {
			t.Fatal(err)
		}
		starts := 0
		for i, line := range b.journal.lines {
			if !strings.HasSuffix(line, " starts") {
				continue
			}
			if starts++; b.journal.lines[i-1] != "settle" {
				t.Errorf("%q comes after %q, want a washout before it", line, b.journal.lines[i-1])
			}
		}
		if starts != 6 {
			t.Errorf("%d starts, want 6: %q", starts, b.journal.lines)
		}
	})
}
