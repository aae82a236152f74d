package pgbenchtools

import (
	"time"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// An Experiment is the experiment that does the work of a config, as plain data.
type Experiment struct {
	Source string         // the config's own name
	Notes  []yamldoc.Note // for the comment at the top

	Script      string // of tare
	Scales      []int
	Clients     []int
	Rates       []int // transactions per second; empty = as many as possible
	ClientRates []int // the same for each client
	Time        time.Duration
	Blocks      int
	Socket      bool     // a Unix socket, not TCP
	Reset       []string // a command before each trial; empty = none
}

// YAML writes the experiment as a file that can be planned and run, with the notes as a comment.
func (e Experiment) YAML() []byte {
	w := &yamldoc.Writer{}
	w.Origin(e.Source+", a config of pgbench-tools", e.Notes)
	w.Line("name: pgbench-tools")
	w.Line("workload: postgres")
	w.Line("")
	w.Line("factors:")
	w.Line("  engine: auto-2")
	e.writeConditions(w)
	if e.Socket {
		w.Line("spec:")
		w.Line("  network: socket")
		w.Line("")
	}
	w.Line("params:")
	w.Line("  parts: [load]")
	w.Line("  script: %s", e.Script)
	w.Line("  time: %s", yamldoc.Duration(e.Time))
	w.Line("")
	w.Line("blocks: %d", e.Blocks)
	w.Line("warmup: 0")
	w.Line("timeouts: {trial: %s}", yamldoc.Duration(e.Time+10*time.Minute))
	if len(e.Reset) > 0 {
		w.Line("hooks:")
		w.Line("  - {when: before-trial, do: command, argv: [%s]}", yamldoc.Words(e.Reset))
	}
	return w.Bytes()
}

// writeConditions writes what varies. A rate for each client belongs to the number of clients, so
// the two are one condition.
func (e Experiment) writeConditions(w *yamldoc.Writer) {
	w.Line("conditions:")
	w.Line("  scale: [%s]", yamldoc.Numbers(e.Scales))
	if len(e.ClientRates) == 0 {
		w.Line("  clients: [%s]", yamldoc.Numbers(e.Clients))
	} else {
		w.Line("  clients:")
		for _, c := range e.Clients {
			for _, r := range e.ClientRates {
				w.Line("    - {name: \"%d at %d\", params: {clients: %d, rate: %d}}", c, r, c, c*r)
			}
		}
	}
	if len(e.Rates) > 0 {
		w.Line("  rate: [%s]", yamldoc.Numbers(e.Rates))
	}
	w.Line("")
}
