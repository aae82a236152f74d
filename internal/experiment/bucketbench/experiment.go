package bucketbench

import (
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// An Experiment is the experiment that does the work of a file for
// bucketbench, as plain data.
type Experiment struct {
	Name   string         // empty where the file has none
	Source string         // the file's own name
	Notes  []yamldoc.Note // for the comment at the top

	Engines     []Engine // at least one, with names that differ
	Concurrency []int    // rising
	Image       string
	Argv        []string      // empty = the image's own program
	Network     string        // empty = tare's default
	Operations  []string      // of one container, in this order
	Grace       time.Duration // of the operation stop; 0 where there is none
	Operation   time.Duration // the longest time for one operation
	Trial       time.Duration // the longest time for one trial
}

// An Engine is one of those compared.
type Engine struct {
	Name       string
	Driver     string // the kind of tare's engine
	Option     string // of the driver; empty = none
	Value      string // of the option
	Iterations int    // containers in each lane, one after the other
	Threads    int    // the most lanes for this engine
}

// YAML writes the experiment as a file that can be planned and run, with the
// notes as a comment.
func (e Experiment) YAML() []byte {
	w := &yamldoc.Writer{}
	w.Origin("the bucketbench file "+e.Source, e.Notes)
	if e.Name != "" {
		w.Line("name: %s", yamldoc.Word(e.Name))
	}
	w.Line("workload: throughput")
	w.Line("")
	e.writeEngines(w)
	e.writeConcurrency(w)
	e.writeSpec(w)
	e.writeParams(w)
	return w.Bytes()
}

func (e Experiment) writeEngines(w *yamldoc.Writer) {
	w.Line("engines:")
	for _, engine := range e.Engines {
		option := ""
		if engine.Option != "" {
			option = ", " + engine.Option + ": " + yamldoc.Word(engine.Value)
		}
		w.Line("  %s: {driver: %s%s}", engine.Name, engine.Driver, option)
	}
	w.Line("")
	w.Line("factors:")
	w.Line("  engine:")
	for _, engine := range e.Engines {
		if e.sameIterations() {
			w.Line("    - %s", engine.Name)
		} else {
			w.Line("    - {name: %s, engine: %s, params: {iterations: %d}}", engine.Name, engine.Name, engine.Iterations)
		}
	}
}

func (e Experiment) sameIterations() bool {
	return !slices.ContainsFunc(e.Engines, func(o Engine) bool { return o.Iterations != e.Engines[0].Iterations })
}

// writeConcurrency repeats the comparison under each number of lanes, without
// those engines whose drivers had fewer.
func (e Experiment) writeConcurrency(w *yamldoc.Writer) {
	w.Line("conditions:")
	w.Line("  concurrency: [%s]", yamldoc.Numbers(e.Concurrency))
	exclude := false
	for _, engine := range e.Engines {
		i := slices.IndexFunc(e.Concurrency, func(n int) bool { return n > engine.Threads })
		if i < 0 {
			continue
		}
		if !exclude {
			w.Line("exclude:")
			exclude = true
		}
		w.Line("  - {engine: %s, concurrency: [%s]}", engine.Name, yamldoc.Numbers(e.Concurrency[i:]))
	}
	w.Line("")
}

func (e Experiment) writeSpec(w *yamldoc.Writer) {
	w.Line("spec:")
	w.Line("  image: %s", yamldoc.Word(e.Image))
	if len(e.Argv) > 0 {
		w.Line("  argv: [%s]", yamldoc.Words(e.Argv))
	}
	if e.Network != "" {
		w.Line("  network: %s", e.Network)
	}
	w.Line("")
}

func (e Experiment) writeParams(w *yamldoc.Writer) {
	w.Line("params:")
	if e.sameIterations() {
		w.Line("  iterations: %d", e.Engines[0].Iterations)
	}
	w.Line("  operations: [%s]", strings.Join(e.Operations, ", "))
	if e.Grace > 0 {
		w.Line("  grace: %s", yamldoc.Duration(e.Grace))
	}
	w.Line("")
	w.Line("timeouts: {trial: %s, operation: %s}", yamldoc.Duration(e.Trial), yamldoc.Duration(e.Operation))
}
