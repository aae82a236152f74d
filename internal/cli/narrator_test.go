package cli

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// Engines that cannot be used are told where that is: here, or on some of several hosts.
func TestSkippedEngines(t *testing.T) {
	var b bytes.Buffer
	a := &invocation{stderr: &b, env: func(string) string { return "" }}
	engine := func(name string, lacking ...string) app.Probed {
		return app.Probed{Instance: app.Instance{Name: name}, Err: errors.New("no socket"), Lacking: lacking}
	}
	a.announceSkipped([]app.Probed{engine("crun"), engine("runsc")}, true)
	a.announceSkipped([]app.Probed{engine("docker", "b"), engine("podman", "a", "b")}, true)
	want := "tare: cannot be used here: crun, runsc; 'tare doctor' says why\n" +
		"tare: cannot be used on every host: docker (not on b), podman (not on a, b); 'tare doctor --remote HOST' says why\n"
	if got := b.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// narrated is what is told on stderr of a run with one good trial and seven bad ones.
func narrated(t *testing.T, loudness globalOptions) string {
	t.Helper()
	var b bytes.Buffer
	clock := time.Unix(1_000_000, 0)
	a := &invocation{
		stderr: &b, env: func(string) string { return "" }, now: func() time.Time { return clock }, global: loudness,
	}
	n := &narrator{watcher: &watcher{invocation: a}}
	plan := bench.Plan{
		Name: "mine", Cells: []bench.Cell{{Name: "native", Engine: "native", Baseline: true}}, MinBlocks: 8, MaxBlocks: 8,
	}
	n.RunBegins(app.Session{
		Header: bench.Header{ID: "R", Plan: plan},
		Planned: &app.Planned{Plan: plan, Probed: []app.Probed{
			{Instance: app.Instance{Name: "native"}, Info: bench.EngineInfo{Version: "1.2"}},
			{Instance: app.Instance{Name: "docker"}, Err: errors.New("no socket")},
		}},
	})
	hook := bench.Hook{When: bench.BeforeTrial, Do: bench.HookCommand, Argv: []string{"sync"}}
	if !a.graceful.Load() {
		t.Error("a signal would end the run at once")
	}
	n.OnEvent(run.Began{Trials: 8})
	n.OnEvent(run.SetUpBegan{Cell: 0})
	clock = clock.Add(3 * time.Second)
	n.OnEvent(run.TrialBegan{})
	clock = clock.Add(2 * time.Second)
	n.OnEvent(run.HookEnded{Hook: hook, Took: 5 * time.Millisecond})
	n.OnEvent(run.TrialEnded{Sample: bench.Sample{Outcome: bench.OK, Elapsed: 2 * time.Second, Counted: time.Second}})
	for range 7 {
		n.OnEvent(run.HookEnded{Hook: hook, Took: 5 * time.Millisecond})
		n.OnEvent(run.TrialEnded{Sample: bench.Sample{Outcome: bench.Failed, Reason: "it broke"}})
	}
	clock = clock.Add(5 * time.Second)
	n.OnEvent(run.Ended{})
	n.RunOver()
	clock = clock.Add(time.Second)
	n.cleaned("R", nil)
	if a.graceful.Load() {
		t.Error("signals stay graceful after the run")
	}
	return b.String()
}

func TestNarrator(t *testing.T) {
	if told := narrated(t, globalOptions{Quiet: true}); told != "" {
		t.Errorf("--quiet tells\n%s", told)
	}
	usual := narrated(t, globalOptions{})
	if n := strings.Count(usual, "it broke"); n != maxShownFailures {
		t.Errorf("%d failures are told, want %d:\n%s", n, maxShownFailures, usual)
	}
	verbose := narrated(t, globalOptions{Verbose: true})
	if n := strings.Count(verbose, "it broke"); n != 7 {
		t.Errorf("--verbose tells %d failures, want 7:\n%s", n, verbose)
	}
	for _, want := range []string{
		"tare: probed native: 1.2\n",
		"tare: probed docker: cannot be used: no socket\n",
		"tare: prepared native in 3s\n",
		"tare: hook before-trial command sync: done in 5ms\n",
		"tare: hook before-trial command sync: ran 8 times, 40ms in all\n",
		"tare: of 10s, 2s (20 %) were inside 8 trials, and 1s (10 %) of that in their workloads; ",
		"tare: cleaned up in 1s: ",
	} {
		if !strings.Contains(verbose, want) {
			t.Errorf("--verbose does not tell %q:\n%s", want, verbose)
		}
		if strings.Contains(usual, want) {
			t.Errorf("without --verbose it is told that %q", want)
		}
	}
}

// A machine without earlier runs learns from the first block that a budget is too short.
func TestBudgetTooShort(t *testing.T) {
	const warning = "too few blocks for any verdict: 2 blocks (of about 20s, in a budget of 1m), " +
		"but up to 2 comparisons need up to 7 → use --budget 2m50s, or compare fewer cells\n"
	ok := []bench.Outcome{bench.OK, bench.OK, bench.OK, bench.OK}
	for name, tt := range map[string]struct {
		known    time.Duration
		budget   time.Duration
		blocks   int
		outcomes []bench.Outcome
		alone    bool // there is one cell, so nothing is compared
		want     string
	}{
		"too short":    {budget: time.Minute, blocks: 100, outcomes: ok, want: warning},
		"known before": {known: 20 * time.Second, budget: time.Minute, blocks: 100, outcomes: ok, want: warning},
		"long enough":  {budget: time.Hour, blocks: 100, outcomes: ok},
		"few blocks": {budget: time.Hour, blocks: 2, outcomes: ok, want: "too few blocks for any verdict: 2 blocks, " +
			"but up to 2 comparisons need up to 7 → use --blocks 7, or compare fewer cells\n"},
		"one cell": {budget: 15 * time.Second, blocks: 100, outcomes: ok, alone: true},
		"one cell that takes long": {
			budget: 5 * time.Second, blocks: 100, outcomes: ok, alone: true,
			want: "one block takes about 10s, which is longer than the budget: a block that has begun is finished\n",
		},
		"a failure": {
			budget: time.Minute, blocks: 100, want: warning,
			outcomes: []bench.Outcome{bench.OK, bench.TimedOut, bench.OK, bench.OK},
		},
	} {
		var b bytes.Buffer
		a := &invocation{stderr: &b, env: func(string) string { return "" }, now: time.Now}
		w := &watcher{invocation: a}
		plan := bench.Plan{
			Name: "mine", Cells: []bench.Cell{{Name: "native", Baseline: true}, {Name: "runc"}},
			Warmup: 1, MinBlocks: 2, MaxBlocks: tt.blocks, Budget: tt.budget,
		}
		if tt.alone {
			plan.Cells = plan.Cells[:1]
		}
		metrics := []bench.Metric{{Name: "x", Role: bench.Primary}, {Name: "y", Role: bench.Primary}}
		w.RunBegins(app.Session{
			Header: bench.Header{Plan: plan, Metrics: metrics}, Planned: &app.Planned{Plan: plan}, Block: tt.known,
		})
		w.OnEvent(run.TrialEnded{Sample: bench.Sample{Trial: bench.Trial{Block: -1}, Outcome: bench.OK, Elapsed: time.Hour}})
		for i, outcome := range tt.outcomes {
			w.OnEvent(run.TrialEnded{Sample: bench.Sample{
				Trial: bench.Trial{Block: i / len(plan.Cells), Cell: i % len(plan.Cells)}, Outcome: outcome, Elapsed: 10 * time.Second,
			}})
		}
		told, times := b.String(), 0
		if tt.want != "" {
			times = 1
		}
		if !strings.Contains(told, tt.want) || strings.Count(told, "too few blocks")+strings.Count(told, "longer than") != times {
			t.Errorf("%s: want %q once:\n%s", name, tt.want, told)
		}
	}
}

// Where no earlier run tells, the first blocks say once what the run will leave undecided.
func TestOutlookByFirstBlocks(t *testing.T) {
	for _, noise := range []float64{0.2, 0.001} {
		r := analysistest.Run(analysistest.Shape{
			Seed: 1, Blocks: 8, Warmup: 1, Metrics: analysistest.Lifecycle()[:1], NoControl: true,
			Noise: func(r *rand.Rand) float64 { return noise * r.NormFloat64() },
			Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc", Factor: 1.02}, {Name: "docker", Factor: 10}},
		})
		r.Header.Plan.MaxBlocks = 10
		var b bytes.Buffer
		w := &watcher{invocation: &invocation{stderr: &b, env: func(string) string { return "" }, now: time.Now}}
		w.RunBegins(app.Session{Header: r.Header, Planned: &app.Planned{Plan: r.Header.Plan}, Block: time.Second})
		const text = "by the first 6 blocks, about 1 of 2 comparisons will be undecided after 10 blocks → "
		for _, s := range r.Samples {
			w.OnEvent(run.TrialBegan{Trial: s.Trial})
			if told := strings.Contains(b.String(), text); told != (noise > 0.1 && s.Trial.Block >= 6) {
				t.Fatalf("noise %v, block %d:\n%s", noise, s.Trial.Block, &b)
			}
			w.OnEvent(run.TrialEnded{Sample: s})
		}
		if strings.Count(b.String(), "by the first") > 1 {
			t.Errorf("told more than once:\n%s", &b)
		}
	}
}
