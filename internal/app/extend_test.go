package app_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// A finished run is extended as its seed has it, and as often as is asked for.
func TestExtend(t *testing.T) {
	a, store := newApp(t, &watcher{}), newStore(t)
	p := planned(t, a, small)
	id, err := a.Measure(t.Context(), store, p, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blocks := 2
	for looks, more := range []app.More{
		{Blocks: 3}, {Budget: time.Nanosecond}, {Blocks: 1, Budget: time.Hour}, {Blocks: 1, Budget: math.MaxInt64},
	} {
		r, err := app.Extensible(t.Context(), store, "")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := a.Extend(t.Context(), store, r, more, app.Options{}); err != nil || again != id {
			t.Fatalf("%+v: %q, %v", more, again, err)
		}
		if r, err = store.Open(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		blocks += max(more.Blocks, 1) // a block that has begun within the budget is finished
		want := bench.StopBlocks
		if more.Blocks == 0 {
			want = bench.StopBudget
		}
		if r.End == nil || r.End.Reason != want || r.Looks() != looks+2 {
			t.Errorf("%+v: ended with %+v at look %d", more, r.End, r.Looks())
		}
		plan := p.Plan
		plan.MaxBlocks = blocks
		wanted := schedule.Trials(schedule.Blocks(plan), 0)
		got := make([]bench.Trial, len(r.Samples))
		for i, s := range r.Samples {
			got[i] = s.Trial
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("%+v: trials %v, want %v", more, got, wanted)
		}
	}
}

// An extension that is interrupted goes on to its own limits, and is one look.
func TestExtendInterrupted(t *testing.T) {
	w := &watcher{}
	a, store := newApp(t, w), newStore(t)
	p := planned(t, a, small)
	id, err := a.Measure(t.Context(), store, p, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.Extensible(t.Context(), store, id)
	if err != nil {
		t.Fatal(err)
	}
	w.after, w.interrupt = w.trials+1, make(chan struct{})
	if _, err := a.Extend(t.Context(), store, r, app.More{Blocks: 2}, app.Options{Interrupt: w.interrupt}); err == nil {
		t.Fatal("it was not interrupted")
	}
	var why *app.Problem
	if _, err := app.Extensible(t.Context(), store, id); !errors.As(err, &why) || why.Kind != app.Unfinished {
		t.Errorf("to extend what is not finished: %v", err)
	}
	if r, err = app.Incomplete(t.Context(), store, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Resume(t.Context(), store, r, app.Options{}); err != nil {
		t.Fatal(err)
	}
	if r, err = store.Open(t.Context(), id); err != nil || r.End == nil || len(r.Samples) != 4*len(p.Plan.Cells) ||
		r.Looks() != 2 {
		t.Errorf("%d trials at look %d, ended with %v; %v", len(r.Samples), r.Looks(), r.End, err)
	}
}

// busy calls do while a trial is under way, once.
type busy struct {
	app.NopObserver
	do func()
}

func (b *busy) OnEvent(e run.Event) {
	if _, ok := e.(run.TrialBegan); ok && b.do != nil {
		do := b.do
		b.do = nil
		do()
	}
}

// What another process extends is refused, and says that it is under way.
func TestExtendUnderWay(t *testing.T) {
	b := &busy{}
	a, store := newAppFor(t, b), newStore(t)
	id, err := a.Measure(t.Context(), store, planned(t, a, small), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	finished, err := app.Extensible(t.Context(), store, id)
	if err != nil {
		t.Fatal(err)
	}
	if a.UnderWay(id) {
		t.Error("under way before it is extended")
	}
	asked := false
	b.do = func() {
		asked = true
		if !a.UnderWay(id) {
			t.Error("not under way while it is extended")
		}
		if _, err := a.Extend(t.Context(), store, finished, app.More{Blocks: 1}, app.Options{}); err == nil {
			t.Error("it is extended twice at once")
		}
		var why *app.Problem
		if _, err := app.Extensible(t.Context(), store, id); !errors.As(err, &why) || why.Kind != app.Unfinished {
			t.Errorf("meanwhile: %v", err)
		}
	}
	if _, err := a.Extend(t.Context(), store, finished, app.More{Blocks: 1}, app.Options{}); err != nil || !asked {
		t.Fatalf("%v; asked meanwhile: %v", err, asked)
	}
	if r, err := store.Open(t.Context(), id); err != nil || r.Looks() != 2 || r.End == nil {
		t.Errorf("after %v it is at look %d: %v", r.End, r.Looks(), err)
	}
}

// A run that another process has extended meanwhile, and an imported one, are left alone.
func TestExtendRefused(t *testing.T) {
	a, store := newApp(t, &watcher{}), newStore(t)
	p := planned(t, a, small)
	id, err := a.Measure(t.Context(), store, p, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, err := app.Extensible(t.Context(), store, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Extend(t.Context(), store, before, app.More{Blocks: 1}, app.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Extend(t.Context(), store, before, app.More{Blocks: 1},
		app.Options{}); !errors.Is(err, bench.ErrExtended) {
		t.Errorf("what another process has extended: %v", err)
	}
	for _, more := range []app.More{
		{}, {Blocks: -1}, {Budget: -time.Second}, {Blocks: math.MaxInt}, {Blocks: bench.MaxBlocks - 1},
	} {
		if _, err := a.Extend(t.Context(), store, before, more, app.Options{}); err == nil {
			t.Errorf("it is extended by %+v", more)
		}
	}
	run := storetest.Example("imported", 4)
	run.Header.Imported = true
	w, err := store.Create(t.Context(), run.Header)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range run.Samples {
		if err := w.Append(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(t.Context(), *run.End); err != nil {
		t.Fatal(err)
	}
	var why *app.Problem
	if _, err := app.Extensible(t.Context(), store, "imported"); !errors.As(err, &why) || why.Kind != app.Imported {
		t.Errorf("an imported run: %v", err)
	}
}
