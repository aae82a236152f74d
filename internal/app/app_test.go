package app_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// small is a run of a known set of trials: two blocks, whatever they show.
const small = `
workload: lifecycle
factors: {engine: [native]}
blocks: 2
warmup: 0
washout: off
precision: off
`

// watcher keeps what it is told, and interrupts the run after so many trials.
type watcher struct {
	app.NopObserver
	told      []string
	trials    int
	after     int // 0 = never
	interrupt chan struct{}
}

func (w *watcher) RunBegins(s app.Session) { w.told = append(w.told, "begins "+s.Header.Plan.Name) }
func (w *watcher) RunOver()                { w.told = append(w.told, "over") }

func (w *watcher) OnEvent(e run.Event) {
	if _, ok := e.(run.TrialEnded); ok {
		if w.trials++; w.trials == w.after {
			close(w.interrupt)
		}
	}
}

// newApp returns tare with a state directory of the test's own, which is empty again at
// its end.
func newApp(t *testing.T, w *watcher) *app.App {
	t.Helper()
	return newAppFor(t, w)
}

// newAppFor is newApp for another observer.
func newAppFor(t *testing.T, w app.Observer) *app.App {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-app-") // t.TempDir is not for other users
	if err != nil {
		t.Fatal(err)
	}
	a := app.New(app.Config{Version: "test", Observer: w})
	here, err := a.WithState(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()                                                                  // it has no sessions
		if left, _ := os.ReadDir(filepath.Join(dir, "state", "runs")); len(left) > 0 { // nothing where nothing has run
			t.Errorf("left behind: %v", left)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return here
}

// planned is the plan of an experiment whose engine is here.
func planned(t *testing.T, a *app.App, text string) *app.Planned {
	t.Helper()
	e, err := experiment.Parse("small.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Plan(t.Context(), e, "")
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Require(t, "native", p.Usable(t.Context()))
	return p
}

func newStore(t *testing.T) bench.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// What is not a command line plans, measures, stores and concludes too.
func TestMeasure(t *testing.T) {
	w := &watcher{}
	a, store := newApp(t, w), newStore(t)
	p := planned(t, a, small)
	id, err := a.Measure(t.Context(), store, p, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if last, err := app.FindRun(t.Context(), store, "last"); err != nil || last != id {
		t.Errorf("the last run is %q, %v, want %q", last, err, id)
	}
	r, err := app.OpenRun(t.Context(), store, id)
	if err != nil {
		t.Fatal(err)
	}
	if outcome, beside := app.Conclude(r, nil, false); outcome != nil || beside != nil {
		t.Errorf("it ended with %v, and %v", outcome, beside)
	}
	if n := 2 * len(p.Plan.Cells); r.End == nil || len(r.Samples) != n || w.trials != n {
		t.Errorf("%d trials are stored and %d were told of the %d, and it ended with %v", len(r.Samples), w.trials, n, r.End)
	}
	if want := []string{"begins small", "over"}; !slices.Equal(w.told, want) {
		t.Errorf("the observer was told %q, want %q", w.told, want)
	}
	if r.Header.Tool != "test" || len(r.Header.Engines) != 1 || r.Header.Host.Kernel == "" {
		t.Errorf("the header is %+v", r.Header)
	}
}

// newInterrupter is a watcher that interrupts the run after its first trial.
func newInterrupter() *watcher { return &watcher{after: 1, interrupt: make(chan struct{})} }

// interrupted is a small run that the watcher has interrupted, with its plan.
func interrupted(t *testing.T, a *app.App, s bench.Store, w *watcher) (*app.Planned, *bench.Run) {
	t.Helper()
	p := planned(t, a, small)
	id, err := a.Measure(t.Context(), s, p, app.Options{Interrupt: w.interrupt})
	if !errors.Is(err, run.ErrInterrupted) {
		t.Fatal(err)
	}
	r, err := app.Incomplete(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// A run that is interrupted is gone on with.
func TestResume(t *testing.T) {
	w := newInterrupter()
	a, store := newApp(t, w), newStore(t)
	p := planned(t, a, small)
	id, err := a.Measure(t.Context(), store, p, app.Options{Interrupt: w.interrupt})
	if !errors.Is(err, run.ErrInterrupted) || id == "" {
		t.Fatalf("%q, %v; want a run that was interrupted", id, err)
	}
	r, openErr := app.Incomplete(t.Context(), store, "")
	if openErr != nil || len(r.Samples) != 1 {
		t.Fatalf("%v, %v; want the run with its one trial", r, openErr)
	}
	outcome, _ := app.Conclude(r, err, false)
	var why *app.Problem
	if !errors.As(outcome, &why) || why.Kind != app.Interrupted || why.Run != id || why.Trials != 1 {
		t.Errorf("it ended with %#v", outcome)
	}
	if again, err := a.Resume(t.Context(), store, r, app.Options{}); err != nil || again != id {
		t.Fatalf("%q, %v", again, err)
	}
	if r, err = store.Open(t.Context(), id); err != nil || r.End == nil || len(r.Samples) != 2*len(p.Plan.Cells) {
		t.Errorf("%d trials, ended with %v; %v", len(r.Samples), r.End, err)
	}
	if began, resumed := lasting(r.Header.Warnings), lasting(r.Resumptions[0].Warnings); !slices.Equal(began, resumed) {
		t.Errorf("what disturbs here all the time: %q when it began, %q when it was resumed", began, resumed)
	}
	if _, err := app.Incomplete(t.Context(), store, id); !errors.As(err, &why) || why.Kind != app.Finished {
		t.Errorf("to go on with a finished run: %v", err)
	}
}

// lasting are the texts of warnings about the machine that are no number of the moment, such as its load.
func lasting(all []bench.Warning) (texts []string) {
	for _, w := range all {
		if strings.HasPrefix(w.Code, "host-") && !strings.ContainsAny(w.Text, "0123456789") {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

// switched is another observer at another time.
type switched struct{ app.Observer }

// Of several who resume a run at once, one continues it, and the others learn that it is under
// way: also while what a killed process left is looked for.
func TestResumeAtOnce(t *testing.T) {
	for range 5 {
		w := newInterrupter()
		o := &switched{Observer: w}
		a, store := newAppFor(t, o), newStore(t)
		p, r := interrupted(t, a, store, w)
		id := r.Header.ID
		o.Observer = app.NopObserver{}
		errs := make([]error, 3)
		var together sync.WaitGroup
		for i := range errs {
			together.Go(func() {
				_, errs[i] = a.Resume(t.Context(), store, r, app.Options{})
			})
		}
		together.Wait()
		continued := 0
		for _, err := range errs {
			var why *app.Problem
			switch {
			case err == nil:
				continued++
			case errors.Is(err, bench.ErrFinished): // it was resumed and finished meanwhile
			case !errors.As(err, &why) || why.Kind != app.UnderWay || why.Run != id:
				t.Errorf("one fails with %v", err)
			}
		}
		stored, err := store.Open(t.Context(), id)
		if err != nil || continued != 1 || stored.End == nil || len(stored.Resumptions) != 1 ||
			len(stored.Samples) != 2*len(p.Plan.Cells) {
			t.Errorf("%d continued; resumptions: %d, %d trials, end %v; %v", continued, len(stored.Resumptions),
				len(stored.Samples), stored.End, err)
		}
	}
}

// The same goes for who has a state directory of his own, in which no lock is: he does not remove
// what the other one measures.
func TestResumeFromTwoStates(t *testing.T) {
	w := newInterrupter()
	first, store := newApp(t, w), newStore(t)
	p, r := interrupted(t, first, store, w)
	errs := make([]error, 2)
	var together sync.WaitGroup
	for i := range errs {
		a := newAppFor(t, app.NopObserver{})
		together.Go(func() { _, errs[i] = a.Resume(t.Context(), store, r, app.Options{}) })
	}
	together.Wait()
	continued := 0
	for _, err := range errs {
		var why *app.Problem
		switch {
		case err == nil:
			continued++
		case errors.Is(err, bench.ErrFinished): // it was resumed and finished meanwhile
		case !errors.As(err, &why) || why.Kind != app.UnderWay:
			t.Errorf("one fails with %v", err)
		}
	}
	stored, err := store.Open(t.Context(), r.Header.ID)
	if err != nil || continued != 1 || len(stored.Resumptions) != 1 || len(stored.Samples) != 2*len(p.Plan.Cells) {
		t.Fatalf("%d continued; %d resumptions, %d trials; %v", continued, len(stored.Resumptions), len(stored.Samples), err)
	}
	for _, s := range stored.Samples {
		if s.Outcome != bench.OK {
			t.Errorf("trial %d %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
	}
}

// Clean does not remove what a run of another state directory has, while that is under way.
func TestCleanFromTwoStates(t *testing.T) {
	w := newInterrupter()
	first, store := newApp(t, w), newStore(t)
	_, r := interrupted(t, first, store, w)
	id, state := r.Header.ID, t.TempDir()
	second, err := app.New(app.Config{}).WithState(state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()   // it has no sessions
	dir := filepath.Join(state, "runs", id) // as a killed run leaves it
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("tare run "+id+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := app.CleanOptions{Hold: func(ctx context.Context, id string) (func() error, error) {
		return app.Hold(ctx, store, id)
	}}
	named := options
	named.Runs = []string{id}
	of := func(found []app.Leftover) bool {
		return slices.ContainsFunc(found, func(l app.Leftover) bool { return l.Run == id })
	}
	release, err := app.Hold(t.Context(), store, id) // as the one that measures does
	if err != nil {
		t.Fatal(err)
	}
	var why *app.Problem
	if found, err := second.Clean(t.Context(), named); !errors.As(err, &why) || why.Kind != app.UnderWay || found != nil {
		t.Errorf("by its name: %v, %v", found, err)
	}
	if found, err := second.Clean(t.Context(), options); err != nil || of(found) {
		t.Errorf("with all others: %v, %v", found, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if found, err := second.Clean(t.Context(), options); err != nil || !of(found) {
		t.Errorf("once it is dead: %v, %v", found, err)
	}
	if again, err := app.Hold(t.Context(), store, id); err != nil || again() != nil {
		t.Errorf("clean does not let it go: %v", err)
	}
}

// Engines that a run does not use are not asked anything, from its plan to its resumption.
func TestOthersAreNotAsked(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody uses it any more
	var asked atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = c.Close() // which is an answer too
		}
	}()
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	w := newInterrupter()
	a, store := newApp(t, w), newStore(t)
	p, r := interrupted(t, a, store, w)
	if len(p.Probed) != 1 {
		t.Errorf("probed: %d engines, want 1", len(p.Probed))
	}
	if _, err := a.Resume(t.Context(), store, r, app.Options{}); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("docker was asked %d times", n)
	}
	_, err = a.Clean(t.Context(), app.CleanOptions{})
	if asked.Load() == 0 {
		t.Errorf("Clean does not ask docker either: %v", err)
	}
}

// A run that cannot begin is none, and what was made for it is removed.
func TestMeasureThatDoesNotBegin(t *testing.T) {
	a := newApp(t, &watcher{})
	p := planned(t, a, small)
	full := errors.New("no space left")
	id, err := a.Measure(t.Context(), newStore(t), p, app.Options{
		Create: func(context.Context, bench.Store, bench.Header) (bench.RunWriter, error) { return nil, full },
	})
	if id != "" || !errors.Is(err, full) {
		t.Errorf("%q, %v; want no run, and %v", id, err, full)
	}
	e, err := experiment.Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	nowhere := app.New(app.Config{})
	defer func() { _ = nowhere.Close() }() // it has no sessions
	if p, err = nowhere.Plan(t.Context(), e, ""); err != nil {
		t.Fatal(err)
	}
	if id, err := nowhere.Measure(t.Context(), newStore(t), p, app.Options{}); id != "" || err == nil {
		t.Errorf("without a state directory: %q, %v", id, err)
	}
}

// Every format has a name of its own, and is written.
func TestFormats(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range app.Formats() {
		if seen[f.Name] || f.Name == "" || f.Write == nil {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
	}
}

func TestProblems(t *testing.T) {
	one := &app.Problem{Kind: app.NoRun, Err: errors.New("one")}
	two := &app.Problem{Kind: app.Stopped, Err: errors.Join(errors.New("x"), one)}
	var got []app.Kind
	for p := range app.Problems(errors.Join(two, one)) {
		got = append(got, p.Kind)
	}
	if want := []app.Kind{app.Stopped, app.NoRun, app.NoRun}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if none := slices.Collect(app.Problems(nil)); len(none) > 0 {
		t.Errorf("nothing is the problem %q", none)
	}
}
