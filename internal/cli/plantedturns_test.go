package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// A turnsPlant is something planted into the second of two cells that are asked to take turns, and what a run has to
// find.
type turnsPlant struct {
	engine  string // that must be here
	args    func(t *testing.T, p *testEnv) []string
	metric  string
	verdict string // "" = anything but worse
	// truth lies between low and high, as far as this run knows it; nil = nobody knows it.
	truth func(d report.Document) (low, high float64)
	alike bool   // whole trials have to find the same
	whole string // why no turns may be taken; "" = they have to be
	long  bool   // only in the long form
}

func turnsPlants() map[string]turnsPlant {
	compute := []string{"cpu", "--param", "kernels=integer", "--param", "threads=1"}
	return map[string]turnsPlant{
		"a runtime that adds nothing to steady work": { // it starts 20 ms later
			engine: "runc",
			args: func(t *testing.T, p *testEnv) []string {
				return slices.Concat(compute, []string{"--param", "time=200ms"}, p.runWithCause(t, "runc.start.20ms"))
			},
			metric: "cpu.single", long: true,
		},
		"5 % more work for each request": {
			engine: "runc", args: servingTwice("argv: [SERVER, '80', '1500000', '0']", "argv: [SERVER, '80', '1575000', '0']"),
			metric: "http.time.p50", verdict: "worse",
			// At least 80 % of a request's time is that work: it takes some 1.6 ms, and the way there and back 0.2 ms.
			truth: func(report.Document) (low, high float64) { return 1.04, 1.05 },
		},
		"a filter of system calls": {
			engine: "runc", metric: "http.time.p50", verdict: "worse", alike: true, long: true,
			args: servingTwice(
				"argv: [SERVER, '80', '1000000', '2000'], seccomp: unconfined",
				"argv: [SERVER, '80', '1000000', '2000'], seccomp: docker",
			),
		},
		"half a core by quota": {
			engine: "runc",
			args: func(*testing.T, *testEnv) []string {
				cells := []string{"--engine", "runc", "--factor", "cpus=unlimited,0.5"}
				return slices.Concat(compute, []string{"--param", "time=660ms"}, cells)
			},
			metric: "cpu.single", verdict: "worse", whole: "a CPU quota",
			// As in the test of causes.
			truth: func(d report.Document) (low, high float64) { return 0.5 * 0.985, 0.5 / (1 - waited(d)) },
		},
		"a bridge and docker-proxy": {
			engine: "docker",
			args: func(*testing.T, *testEnv) []string {
				return []string{"net-rtt", "--engine", "docker", "--network", "host,published", "--param", "pings=5000"}
			},
			metric: "rtt.p50", verdict: "worse", long: true,
		},
	}
}

// servingTwice has two cells, as YAML, of a web server whose answers take a known amount of work.
func servingTwice(usual, other string) func(t *testing.T, p *testEnv) []string {
	return func(t *testing.T, p *testEnv) []string {
		t.Helper()
		program, err := busyServer()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(p.dir, "server")
		if err := os.WriteFile(file, program, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "workload: http\nparams: {server: image, path: /, connections: 1, time: 600ms, warmup: 50ms}\n" +
			"spec: {image: 'host:SERVER'}\nbaseline: usual\ncells:\n" +
			"  - {name: usual, engine: runc, " + usual + "}\n  - {name: other, engine: runc, " + other + "}\n"
		return []string{p.write(t, "work.yaml", strings.ReplaceAll(text, "SERVER", file))}
	}
}

// busyServer is testdata/server, built once.
var busyServer = sync.OnceValues(func() ([]byte, error) { return buildProgram("server") })

// What is planted into a cell is found while cells take turns, with its size, and nothing is found where it adds
// nothing. Where turns would change it, none are taken.
//
// The short form wants that of one of two runs, which chance spoils in 1 of 400. The long one counts.
func TestPlantedInTurns(t *testing.T) {
	for name, plant := range turnsPlants() {
		if plant.long && testing.Short() {
			continue
		}
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			require(t, plant.engine)
			p := newTestEnv(t)
			args := plant.args(t, p)
			runs, enough := 4, false
			if testing.Short() {
				runs, enough = 2, true
			}
			wrong := 0
			for seed := range runs {
				why := plant.measure(t, p, args, seed)
				if why == "" && enough {
					return
				}
				if why != "" {
					wrong++
					t.Logf("seed %d: %s", seed, why)
				}
			}
			if enough {
				t.Fatal("neither of two runs is right")
			}
			wantAtMost(t, wrong, runs, 0.05, "runs are not right")
		})
	}
}

// measure measures it once, and says what is not as it has to be.
func (plant *turnsPlant) measure(t *testing.T, p *testEnv, args []string, seed int) (wrong string) {
	t.Helper()
	d, e, wrong := plant.effect(t, p, args, "20ms", seed)
	if wrong != "" {
		return wrong
	}
	plant.checkTurns(t, p, d)
	if plant.verdict == "" && e.Verdict == "worse" || plant.verdict != "" && e.Verdict != plant.verdict {
		return fmt.Sprintf("it is found %s, want %q", e.Verdict, plant.verdict)
	}
	var low, high float64
	switch {
	case plant.alike:
		_, whole, wrong := plant.effect(t, p, args, "off", seed)
		if wrong != "" {
			return wrong
		}
		low, high = *whole.Low, *whole.High
	case plant.truth != nil:
		low, high = plant.truth(*d)
	default:
		return ""
	}
	if *e.Low > high || *e.High < low {
		return fmt.Sprintf("what is between %v and %v is not in the interval", low, high)
	}
	return ""
}

// effect measures it once in turns of that length, and returns the report with the effect, which has an interval, or
// what is wrong.
func (plant *turnsPlant) effect(t *testing.T, p *testEnv, args []string, turns string, seed int) (
	d *report.Document, e *report.Effect, wrong string,
) {
	t.Helper()
	s := p.tare(t, slices.Concat([]string{"run"}, args, []string{
		"--interleave", turns, "--primary", plant.metric, "--blocks", "10", "--warmup", "0", "--washout", "30ms",
		"--precision", "off", "--no-control", "--json", "--seed", fmt.Sprint(seed),
	})...)
	if s.code != 0 {
		return nil, nil, fmt.Sprintf("exit code %d: %s", s.code, s.stderr)
	}
	decode(t, s.stdout, &d)
	m := d.Metrics[slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == plant.metric })]
	e = m.Conditions[0].Rows[1].Effect
	if e == nil || e.Low == nil || e.High == nil {
		return nil, nil, fmt.Sprintf("%s has no interval: %+v", plant.metric, e)
	}
	t.Logf("%s, turns %s: %.4f [%.4f, %.4f] %s", plant.metric, turns, *e.Estimate, *e.Low, *e.High, e.Verdict)
	return d, e, ""
}

// checkTurns wants every trial to have taken turns, or none, and the report to say why not.
func (plant *turnsPlant) checkTurns(t *testing.T, p *testEnv, d *report.Document) {
	t.Helper()
	run := p.last(t)
	for i := range run.Samples {
		s := &run.Samples[i]
		if took := turnsOf(run, s) > 0; took != (plant.whole == "") || slices.Contains(s.Notes, bench.NoteWhole) {
			t.Errorf("trial %d: took turns: %v, notes %q", s.Trial.Seq, took, s.Notes)
		}
	}
	said := p.must(t, "show", "last", "--all").stdout
	switch {
	case plant.whole == "":
		if len(d.TurnCosts) != 2 || !strings.Contains(said, "cells took turns of 20ms") {
			t.Errorf("the report does not tell of turns, or not what they cost: %+v\n%s", d.TurnCosts, said)
		}
	case len(d.Runs[0].Plan.Whole) != 1 || !strings.Contains(d.Runs[0].Plan.Whole[0].Reason, plant.whole) ||
		!strings.Contains(said, "trials ran whole"):
		t.Errorf("the report does not say that %s is why: %+v\n%s", plant.whole, d.Runs[0].Plan.Whole, said)
	}
}
