package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/unit"
)

// execution is one sitting of a run: its beginning, or a resumption.
type execution struct {
	header  bench.Header
	planned *planned
	writer  bench.RunWriter
	machine machine
	done    []bench.Sample
	block   time.Duration // that a block takes by earlier runs; 0 = not known
}

// execute measures with a directory and engines of the run's own, and leaves
// nothing of them behind.
func (a *invocation) execute(ctx context.Context, dir *runDir, e execution) error {
	engines := e.planned.engines()
	client := e.planned.client()
	a.graceful.Store(true)
	a.announce(e)
	progress := a.newProgress(e.header)
	e.machine.warm = warming(ctx, e.planned.site.images)
	_, runErr := run.Run(ctx, run.Options{
		Header: e.header, Workload: e.planned.workload, Engines: engines, Client: client, Dir: dir.path,
		Writer: e.writer, Machine: e.machine,
		Clock: run.Monotonic(), Now: a.now,
		Done:        e.done,
		SystemCalls: e.machine.systemCalls(),
		Precision:   analysis.NewPrecision(e.header.Plan, e.header.Metrics),
		Interrupt:   a.interrupted, Observe: progress.observe,
		Command: command,
	})
	progress.end()
	a.graceful.Store(false)
	engines[clientName] = client
	err := closeEngines(ctx, engines)
	if err == nil && progress.failures > 0 {
		err = a.sweep(ctx, e.planned, e.header.ID)
	}
	if err != nil {
		return errors.Join(runErr, leftBehind(err), dir.close())
	}
	return errors.Join(runErr, leftBehind(dir.remove()))
}

// errLeftBehind is how an execution ends that could not clean up after itself.
var errLeftBehind = errors.New("something is left behind")

func leftBehind(err error) error {
	if err == nil {
		return nil
	}
	return &hintError{fmt.Errorf("%w: %w", errLeftBehind, err), "'tare clean' removes it"}
}

// announce says what is about to be measured, and what is left out.
func (a *invocation) announce(e execution) {
	var cells []string
	control := ""
	for _, c := range e.header.Plan.Cells {
		if c.Control {
			control = " + control"
			continue
		}
		cells = append(cells, c.FullName())
	}
	a.notice("%s: %s%s", e.header.Plan.Name, strings.Join(cells, ", "), control)
	plan := e.header.Plan
	stops := stopRule(plan, e.header.Metrics)
	if e.block > 0 {
		stops += "; takes at most about " + unit.FormatDuration(most(plan, e.block))
	}
	a.notice("stops %s", stops)
	if w := undecidable(plan, e.header.Metrics, e.block); w != nil {
		a.notice("%s → %s", w.Text, w.Hint)
	}
	for _, p := range e.planned.leftOut() {
		a.notice("left out: %s: %s", p.instance.Name, p.err)
	}
}
